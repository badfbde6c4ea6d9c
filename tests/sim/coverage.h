// What the seeds have reached. Each corner has a floor, in coverage.cc: the test of seeds fails
// when they reach one of them less often, because a simulator that does not come there finds
// nothing there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::sim {

enum class Corner {
  kSteps,
  kSkippedSteps,
  kEndsNotFinite,
  kHeals,
  kWideHeals,
  kCatchUps,
  kRewinds,
  kJudgedRewinds,
  kKillsOneByOne,
  kTornDeliveries,
  kStoodStill,
  kRestartsInForming,
  kSecondFailures,
  kMemberStalls,
  kLongMemberStalls,
  kCoordinatorStalls,
  kLongCoordinatorStalls,
  kHeldUpDecisions,
  kDecisionsHeldUpAgain,
  kAllStalls,
  kAgentStalls,
  kLongAgentStalls,
  kAgentBreaks,
  kAgentsTurnedAway,
  kSeveralHosts,
  kHostDeaths,
  kHostsLost,
  kCutAgents,
  kHostEnds,
  kDrains,
  kScales,
  kLeaves,
  kGaveWay,
  kPreempted,
  kPlacedUnderQuota,
  kPlacedAnew,
  kJoinsOfOtherPlaces,
  kGrowths,
  kTwoCoordinators,
  kRefusedCopies,
  kReplacedEnds,
  kNotObeyed,
  kHeededItsDisk,
  kSentAway,
  kAlivesLost,
  kHungThreads,
  kBusyThreads,
  kShortCuts,
  kLongCuts,
  kOneWayCuts,
  kLongOneWayCuts,
  kTwoWayCuts,
  kCutsFromCoordinator,
  kCutHosts,
  kVerdicts,
  kVerdictsWhileForming,
  kEarlyGreetings,
  kLetIn,
  kRefusedGreetings,
  kFalseNumbers,
  kAppliedAfterSeal,
  kLostSegments,
  kOvertakenRecords,
  kSkippedParts,
  kFailedCommits,
  kLateCommits,
  kFailedDigests,
  kDamagedLoads,
  kUnluckyLoads,
  kStops,
  kStopsWithoutLast,
  kStopsGivenAgain,
  kStopsOfLaterTerms,
  kCancels,
  kFailedJobs,
  kResumedJobs,
  kChangedRuntimes,
  kDeletedJobs,
  kFailedDeletions,
  kJoinsOfOtherStarts,
  kFreeOrderSteps,
  kBufferSteps,
  kTotals,
  kTotalsWhileForming,
  kLanesWithTotals,
  kKillsAtPhases,
  kMeasures,
  kFacts,
  kLastMeasures,
  kPendingManifests,
  kPartsTriedAgain,
  kLostMeasures,
  kEnough,
  kLeftOut,
  kStreamFacts,
  kStreamEnds,
  kStreamsDone,
  kNoSamples,
  kWaitsForStream,
  kReadersGoOn,
  kUnsyncedLost,
  kSourceFailures,
  kSpoolFailures,
  kSweptSegments,
  kTrimmedSegments,
  kStopsOfStreams,
  kHarmedReaders,
  kAudits,
  kTwinDigests,
  kUnsavedEnds,
  kAccountsChecked,
  kLanesRunAgain,
  kSecondJobs,
  kAlternations,
  kStartsBesideOthers,
  kPassers,
  kDevices,
  kHeldDevices,
  kWaitsForDevices,
  kAnswersLost,
  kQuestionsAskedAgain,
  kSignaturesRefused,
  kRenewals,
  kLaunchesMade,
  kLaunchesMadeAgain,
  kLaunchesAdopted,
  kLaunchesResized,
  kLaunchesEnded,
  kLaunchesGivenUp,
  kLaunchesSuspended,
  kPodsReplaced,
  kGrantedUnderQuota,
  kCount
};

// Those where hosts are made for jobs, those where all data comes while it is used, and all others.
enum class Worlds { kOrdinary, kLaunches, kStreams };

class Coverage {
 public:
  void Add(Corner corner, int64_t times = 1) { counts_[static_cast<size_t>(corner)] += times; }
  int64_t Of(Corner corner) const { return counts_[static_cast<size_t>(corner)]; }
  void Add(const Coverage& other);
  std::string ToString() const;
  // Of `seeds` seeds of such worlds: one sentence for each corner that was reached too rarely.
  std::vector<std::string> BelowFloor(int64_t seeds, Worlds worlds = Worlds::kOrdinary) const;

 private:
  std::array<int64_t, static_cast<size_t>(Corner::kCount)> counts_{};
};

}  // namespace muster::sim
