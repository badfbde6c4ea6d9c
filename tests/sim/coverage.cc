#include "tests/sim/coverage.h"

#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

struct Row {
  Corner corner;
  const char* name;
  int64_t floor;        // of so many seeds:
  int64_t seeds = 400;  // fewer are not asked for it
  Worlds worlds = Worlds::kOrdinary;
};

// What 400 seeds reach changes with every change of the code. So a floor is at most about half of
// what they reached when it was set, and for what they reach less than a hundred times a third.
constexpr Row kRows[] = {
    {Corner::kSteps, "steps", 10000},
    {Corner::kSkippedSteps, "updates that were skipped, because their step was not finite", 100},
    {Corner::kEndsNotFinite, "jobs that ended at a step that was not finite", 20},
    {Corner::kHeals, "heals", 100},
    {Corner::kWideHeals, "heals of more chunks than one fetch carries", 100},
    {Corner::kCatchUps, "catch-ups", 6},
    {Corner::kRewinds, "rewinds", 100},
    {Corner::kJudgedRewinds, "rewinds for which a live copy of the state was looked for", 30},
    {Corner::kKillsOneByOne, "kills of one worker when all members were there again", 10},
    {Corner::kTornDeliveries, "torn deliveries", 100},
    {Corner::kStoodStill, "frames not read before others were dealt with", 20},
    {Corner::kRestartsInForming, "coordinator restarts in a forming view", 100},
    {Corner::kSecondFailures, "second failures in a forming view", 100},
    {Corner::kMemberStalls, "stalls of members", 100},
    {Corner::kLongMemberStalls, "stalls of members longer than a lease", 25},
    {Corner::kCoordinatorStalls, "stalls of the coordinator", 70},
    {Corner::kLongCoordinatorStalls, "stalls of the coordinator longer than a lease", 30},
    {Corner::kHeldUpDecisions, "decisions of the coordinator that were held up", 30},
    {Corner::kDecisionsHeldUpAgain, "decisions that were held up again and again", 15},
    {Corner::kAllStalls, "jobs whose processes all stood still beyond the thread patience", 8},
    {Corner::kAgentStalls, "stalls of the agent", 50},
    {Corner::kLongAgentStalls, "stalls of the agent longer than a lease", 20},
    {Corner::kAgentBreaks, "sessions of an agent that broke while members were up", 13},
    {Corner::kAgentsTurnedAway, "agents that were turned away for another of their host", 20},
    {Corner::kSeveralHosts, "worlds of several hosts", 100},
    {Corner::kHostDeaths, "deaths of a host with all its processes", 20},
    {Corner::kHostsLost, "hosts that were away for so long that they were lost", 40},
    {Corner::kCutAgents, "agents that were cut off while their members were not", 15},
    {Corner::kHostEnds, "hosts that ended and waited for their members to leave", 20},
    {Corner::kDrains, "hosts that were drained", 20},
    {Corner::kScales, "jobs that were scaled", 40},
    {Corner::kLeaves, "members that left while they lived", 20},
    {Corner::kGaveWay, "jobs that gave way and went back into the queue", 15},
    {Corner::kPreempted, "of these, for a job with a higher priority", 6},
    {Corner::kPlacedUnderQuota, "starts and growths while there was a quota", 3},
    {Corner::kPlacedAnew, "members that were placed anew while their job ran", 40},
    {Corner::kJoinsOfOtherPlaces, "members turned away because their place was taken", 20},
    {Corner::kGrowths, "jobs that grew into slots that became free", 10},
    {Corner::kTwoCoordinators, "second coordinators beside one that lived on", 8},
    {Corner::kRefusedCopies, "coordinators that were refused for an older copy", 1},
    {Corner::kReplacedEnds, "coordinators that ended because they were replaced", 8},
    {Corner::kNotObeyed, "words of a coordinator that was replaced, and was not obeyed", 2, 2000},
    {Corner::kHeededItsDisk, "of these, to an agent that had heard nobody since its start", 1,
     2000},
    {Corner::kSentAway, "members that knew more than the coordinator's copy", 12},
    {Corner::kAlivesLost, "heartbeats lost with their session", 50},
    {Corner::kHungThreads, "members lost for a thread that hung", 3},
    {Corner::kBusyThreads, "threads that were busy for longer than a lease", 20},
    {Corner::kShortCuts, "partitions shorter than a lease", 40},
    {Corner::kLongCuts, "partitions longer than a lease", 50},
    {Corner::kOneWayCuts, "one-way partitions", 50},
    {Corner::kLongOneWayCuts, "one-way partitions longer than a lease", 20},
    {Corner::kTwoWayCuts, "two-way partitions", 50},
    {Corner::kCutsFromCoordinator, "partitions of a member from the coordinator", 50},
    {Corner::kCutHosts, "members cut from one of another host, for long", 30},
    {Corner::kVerdicts, "members that were left out because another could not reach them", 8},
    {Corner::kVerdictsWhileForming, "of these, while a view was forming", 4},
    {Corner::kEarlyGreetings, "members that greeted another before its view named them", 100},
    {Corner::kLetIn, "of these, whom a view then named", 100},
    {Corner::kRefusedGreetings, "of these, whom none named within a lease", 10},
    {Corner::kFalseNumbers,
     "frames of members that are cut off under the number of the view to come", 2, 2000},
    {Corner::kAppliedAfterSeal, "updates that were finished after a seal", 12},
    {Corner::kLostSegments, "segments that could not be written", 100},
    {Corner::kOvertakenRecords, "segments that came before the records of their state", 100},
    {Corner::kSkippedParts, "checkpoints skipped because a disk was slow", 500},
    {Corner::kFailedCommits, "commits that failed", 50},
    {Corner::kLateCommits, "commits that took longer than a second", 50},
    {Corner::kFailedDigests, "digests that failed", 10},
    {Corner::kDamagedLoads, "loads of a damaged checkpoint", 4},
    {Corner::kUnluckyLoads, "loads that failed for one member", 5},
    {Corner::kStops, "stops", 50},
    {Corner::kStopsWithoutLast, "of these, without their checkpoint, which failed too often", 1,
     2000},
    {Corner::kStopsGivenAgain, "stops that ended with their view and were given again", 12},
    {Corner::kStopsOfLaterTerms, "stops that were given again by a later coordinator", 6},
    {Corner::kCancels, "cancels", 4},
    {Corner::kFailedJobs, "failed jobs", 10},
    {Corner::kResumedJobs, "jobs submitted again", 50},
    {Corner::kChangedRuntimes, "submissions with other runtime fields", 20},
    {Corner::kDeletedJobs, "jobs deleted, and another of their id", 40},
    {Corner::kFailedDeletions, "deletions that failed", 10},
    {Corner::kJoinsOfOtherStarts, "members turned away that were told of another start", 100},
    {Corner::kFreeOrderSteps, "steps summed in free order", 1000},
    {Corner::kBufferSteps, "steps of models with buffers", 1000},
    {Corner::kTotals, "totals of phases that lanes were given", 10000},
    {Corner::kTotalsWhileForming, "of these, while a view was forming", 4},
    {Corner::kLanesWithTotals, "lanes that were begun when there were totals already", 30},
    {Corner::kKillsAtPhases, "members that were killed at a phase", 25},
    {Corner::kMeasures, "states that were measured", 400},
    {Corner::kFacts, "states that a follower measured", 100},
    {Corner::kLastMeasures, "jobs that are done with the measure of their last state", 10},
    {Corner::kPendingManifests, "checkpoints that had to wait for a follower's measure", 20},
    {Corner::kPartsTriedAgain, "parts of states to be measured that were tried again", 30},
    {Corner::kLostMeasures, "rewinds because of a part of a state to be measured", 1, 2000},
    {Corner::kEnough, "jobs that were done when what is measured was enough", 10},
    {Corner::kLeftOut, "uses of samples that could not be read", 4000},
    {Corner::kStreamFacts, "samples of streams that became facts", 4000, 100, Worlds::kStreams},
    {Corner::kStreamEnds, "ends of streams", 60, 100, Worlds::kStreams},
    {Corner::kStreamsDone, "jobs that used up a stream", 80, 100, Worlds::kStreams},
    {Corner::kNoSamples, "jobs whose stream had no sample", 2, 100, Worlds::kStreams},
    {Corner::kWaitsForStream, "members that waited for more of a stream", 1000, 100,
     Worlds::kStreams},
    {Corner::kReadersGoOn, "readers that went on where another one was", 60, 100, Worlds::kStreams},
    {Corner::kUnsyncedLost, "segments that lost what was not synced", 70, 100, Worlds::kStreams},
    {Corner::kSourceFailures, "failures of a source", 12, 100, Worlds::kStreams},
    {Corner::kSpoolFailures, "failures of a spool", 40, 100, Worlds::kStreams},
    {Corner::kSweptSegments, "segments that readers which are gone had left", 26, 100,
     Worlds::kStreams},
    {Corner::kTrimmedSegments, "segments that were trimmed", 600, 100, Worlds::kStreams},
    {Corner::kStopsOfStreams, "stops while a source stood still", 15, 100, Worlds::kStreams},
    {Corner::kHarmedReaders, "faults of a reader", 60, 100, Worlds::kStreams},
    {Corner::kAudits, "audits", 300},
    {Corner::kTwinDigests, "digests equal to the undisturbed one's", 300},
    {Corner::kUnsavedEnds, "jobs that are done without a checkpoint of their end", 30},
    {Corner::kAccountsChecked, "accounts of lanes that were checked", 200},
    {Corner::kLanesRunAgain, "lanes that were run again", 1000},
    {Corner::kSecondJobs, "worlds with several jobs", 50},
    {Corner::kAlternations, "changes from one job's records to another's in one term", 500},
    {Corner::kStartsBesideOthers, "starts of a job beside one that runs", 50},
    {Corner::kPassers, "starts of a job that passes another in the queue", 6},
    {Corner::kDevices, "processes started with devices", 100},
    {Corner::kHeldDevices, "devices that were held after their place was taken back", 20},
    {Corner::kWaitsForDevices, "processes that waited for a device that another one had", 3, 2000},
    {Corner::kAnswersLost, "certificates that were signed and did not arrive", 50},
    {Corner::kQuestionsAskedAgain, "questions for a certificate that were asked again", 50},
    {Corner::kSignaturesRefused, "questions for a certificate that were refused", 50},
    {Corner::kRenewals, "certificates that were renewed", 500},
    {Corner::kLaunchesMade, "launches whose hosts were made", 100, 100, Worlds::kLaunches},
    {Corner::kLaunchesMadeAgain, "of these, again, because somebody had deleted them", 2, 100,
     Worlds::kLaunches},
    {Corner::kLaunchesAdopted, "launches that a coordinator found when it started", 50, 100,
     Worlds::kLaunches},
    {Corner::kLaunchesResized, "launches that got another number of hosts", 6, 100,
     Worlds::kLaunches},
    {Corner::kLaunchesEnded, "launches that were ended", 100, 100, Worlds::kLaunches},
    {Corner::kLaunchesGivenUp, "launches that Kubernetes gave up", 10, 100, Worlds::kLaunches},
    {Corner::kLaunchesSuspended, "launches that were suspended", 10, 100, Worlds::kLaunches},
    {Corner::kPodsReplaced, "pods that took the place of others", 6, 100, Worlds::kLaunches},
    {Corner::kGrantedUnderQuota, "launches granted while there was a quota", 5, 100,
     Worlds::kLaunches},
};
static_assert(std::size(kRows) == static_cast<size_t>(Corner::kCount));

}  // namespace

void Coverage::Add(const Coverage& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::string Coverage::ToString() const {
  std::string text;
  for (const Row& row : kRows)
    absl::StrAppend(&text, Of(row.corner), " ", row.name, " (at least ", row.floor,
                    row.seeds == 400 ? "" : absl::StrCat(" of ", row.seeds, " seeds"), ")\n");
  return text;
}

std::vector<std::string> Coverage::BelowFloor(int64_t seeds, Worlds worlds) const {
  std::vector<std::string> below;
  for (const Row& row : kRows)
    if (row.worlds == worlds && seeds >= row.seeds &&
        Of(row.corner) * row.seeds < row.floor * seeds)
      below.push_back(absl::StrCat("the seeds reached only ", Of(row.corner), " ", row.name,
                                   ", at least ", row.floor * seeds / row.seeds, " are asked for"));
  return below;
}

}  // namespace muster::sim
