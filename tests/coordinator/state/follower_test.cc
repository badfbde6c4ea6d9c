// A job of which a follower measures states 4, 8 … while two workers train; state s has its measure
// in step s + 2. Whole runs are the simulator's.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/state/job_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"
#include "tests/coordinator/state/actions_of.h"
#include "tests/coordinator/state/desk.h"
#include "tests/coordinator/state/measured.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const MemberId kFollows = Id(kFollowerName);

StoredJob Followed() {
  StoredJob job;
  job.journal.id = "job";
  job.journal.spec = SpecOf(1, 2);
  job.journal.spec.training.validation = {
      .every_steps = 4, .on = MeasuredOn::kFollower, .delay = 3};
  job.journal.resumes = true;
  return job;
}

class FollowedJob : public MeasuredJob {
 public:
  using MeasuredJob::MeasuredJob;
  // Started, with both workers in view 1.
  FollowedJob() : MeasuredJob(Followed()) {
    Placements places = PlacesOf(2);
    places[kFollowerName] = {Role::kFollower, "", {}};
    Begin(places);
  }
  // Up to before this step.
  std::vector<Action> RecordUpTo(int64_t end, const MemberId& by = kOne) {
    std::vector<Action> all;
    for (; recorded < end; ++recorded) {
      StepRecord r;
      r.lineage = lineage();
      r.step = Step(recorded);
      r.view = run.journal().view->number;
      r.samples = StepSamples(run.journal().spec.training, 100, r.step);
      r.weight = 4;
      if (recorded >= 6 && recorded % 4 == 2) r.measures = MeasuresOf({{"loss"}}, Fact(7));
      for (Action& action : Say(by, Records{{r}})) all.push_back(std::move(action));
    }
    return all;
  }
  std::vector<Action> Segment(const MemberId& writer, int64_t step, std::vector<int> chunks) {
    SegmentWritten written{++segments, lineage(), Step(step), {}};
    written.segment.file = "s" + std::to_string(segments);
    for (const int c : chunks) written.segment.entries.push_back({0, ChunkId(c), 0, 64, 0});
    return Say(writer, written);
  }
  // Returns what the last of these leads to: the manifest that is committed.
  std::vector<Manifest> Save(int64_t step) {
    std::vector<Action> actions = Segment(kOne, step, {0, 1, 2});
    std::vector<Manifest> manifests;
    for (const CommitManifest& commit : Of<CommitManifest>(actions))
      manifests.push_back(commit.manifest);
    return manifests;
  }
  std::vector<Action> Commit(const std::vector<Manifest>& manifests) {
    EXPECT_THAT(manifests, SizeIs(1));
    return run.Handle(ManifestCommitted{manifests.at(0)}, now);
  }
  // Time passes, in which whoever lives says so.
  std::vector<Action> Live(std::chrono::seconds time) {
    std::vector<Action> all;
    const auto add = [&](std::vector<Action> actions) {
      for (Action& action : actions) all.push_back(std::move(action));
    };
    for (const Time end = now + time; now < end;) {
      now += std::chrono::milliseconds(500);
      std::vector<MemberId> live;
      for (const MemberStatus& m : run.Status().members) live.push_back(m.member.id);
      for (const MemberId& id : live) add(Say(id, Alive{}));
      add(run.Handle(Tick{}, now));
    }
    return all;
  }
  std::vector<Action> Measured(int64_t step, float limb) {
    return Say(kFollows, muster::Measured{lineage(), Step(step), Fact(limb)});
  }

  int64_t recorded = 0;
  int64_t segments = 0;
};

TEST(Follower, MeasuresWhatIsCommittedAndItsFactIsJournalledBeforeItIsGiven) {
  FollowedJob job;
  job.Join(kFollows);
  EXPECT_THAT(job.run.journal().view->members, SizeIs(2)) << "it is in no view";
  job.RecordUpTo(4);
  const auto asked = Said<MeasureState>(job.Commit(job.Save(4)));
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].first, kFollows);
  EXPECT_EQ(asked[0].second.manifest.step, Step(4));
  const auto actions = job.Measured(4, 7);
  size_t persisted = actions.size(), given = 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (std::holds_alternative<PersistMeasure>(actions[i])) persisted = i;
    const auto* to = std::get_if<ToMember>(&actions[i]);
    if (to != nullptr && std::holds_alternative<GiveMeasure>(to->message)) given = i;
  }
  EXPECT_LT(persisted, given);
  const auto gives = Said<GiveMeasure>(actions);
  ASSERT_THAT(gives, SizeIs(1));
  const View& view = *job.run.journal().view;
  EXPECT_EQ(gives[0].first, view.members[static_cast<size_t>(view.owner_of[2])].id);
  EXPECT_EQ(gives[0].second.sums, Fact(7));
  EXPECT_THAT(Said<AckMeasured>(actions), SizeIs(1));
  EXPECT_THAT(Said<GiveMeasure>(job.Measured(4, 7)), IsEmpty()) << "the first one counts";
}

TEST(Follower, IsAskedAgainInEachSessionAndByEachProcess) {
  FollowedJob job;
  job.RecordUpTo(4);
  EXPECT_THAT(Said<MeasureState>(job.Commit(job.Save(4))), IsEmpty()) << "nobody is there";
  EXPECT_THAT(Said<MeasureState>(job.Join(kFollows)), SizeIs(1));
  EXPECT_THAT(Said<MeasureState>(job.Join(kFollows)), SizeIs(1));
  const MemberId next = Id(kFollowerName, 2);
  const auto actions = job.Join(next);
  ASSERT_THAT(Said<MeasureState>(actions), SizeIs(1));
  EXPECT_EQ(Said<MeasureState>(actions)[0].first, next);
  EXPECT_THAT(Said<Seal>(actions), IsEmpty()) << "no view is formed for it";
}

TEST(Follower, WhatItCannotHaveMeasuredEndsIt) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(4);
  job.Commit(job.Save(4));
  MeasureSums two = Fact(1);
  two.floats.resize(2 * kFloatsOfMetric, 0.0f);
  const auto actions = job.Say(kFollows, muster::Measured{job.lineage(), Step(4), two});
  EXPECT_THAT(Of<PersistMeasure>(actions), IsEmpty());
  EXPECT_FALSE(job.run.Has(kFollows));
  EXPECT_THAT(Said<Leave>(job.Say(kTwo, muster::Measured{job.lineage(), Step(4), Fact(1)})),
              SizeIs(1))
      << "a worker is no follower";
}

TEST(Follower, CheckpointsOfTheWindowWaitForItsMeasureAndHaveIt) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(6);
  EXPECT_THAT(job.Save(5), IsEmpty()) << "it waits for the measure of state 4";
  job.Commit(job.Save(4));
  EXPECT_THAT(job.run.Status().waits_for,
              HasSubstr("step 6 waits for follower-0's measure of step 4"));
  const auto commits = Of<CommitManifest>(job.Measured(4, 7));
  ASSERT_THAT(commits, SizeIs(1));
  EXPECT_EQ(commits[0].manifest.step, Step(5));
  EXPECT_EQ(commits[0].manifest.pending, (PendingMeasure{Step(4), Fact(7)}));
  job.run.Handle(ManifestCommitted{commits[0].manifest}, kNow);
  job.RecordUpTo(7);
  const auto next = job.Save(7);
  ASSERT_THAT(next, SizeIs(1));
  EXPECT_EQ(next[0].pending, std::nullopt) << "state 7 has learned of it";
}

TEST(Follower, WhatIsToBeMeasuredIsKeptUntilThen) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(4);
  EXPECT_THAT(Of<PruneManifests>(job.Commit(job.Save(4))), IsEmpty())
      << "what is to be measured stays";
  EXPECT_THAT(Of<PruneManifests>(job.Measured(4, 7)), SizeIs(1));
}

// A view after a worker is lost, whose answer says how far the other one is and what it has of
// state 4.
std::vector<Action> LoseTwo(FollowedJob& job, int64_t step, std::optional<ChunkSet> has) {
  ProcessExited exited;
  exited.job = "job";
  exited.start = StartNumber(1);
  exited.name = kTwo.name;
  exited.lanes.incarnation = kTwo.incarnation;
  job.run.Handle(ExitTold{exited}, kNow);
  job.run.Handle(MemberDown{kTwo}, kNow);
  LocalState held{.has_state = true, .lineage = job.lineage(), .step = Step(step)};
  held.results = held.sums = ChunkSet(3, false);
  if (has) held.measured_part = MeasuredPart{job.lineage(), Step(4), *has};
  return job.Say(kOne, Sealed{job.run.journal().number, held});
}

TEST(Follower, AStateThatIsNotWholeAnyMoreIsDoneAgain) {
  struct Case {
    const char* what;
    std::vector<int> told;  // chunks that the lost worker had told
    std::optional<ChunkSet> has;
    bool goes_back;
  };
  for (const Case& c :
       std::vector<Case>{{"the other has nothing", {}, std::nullopt, true},
                         {"it has the rest", {1}, ChunkSet{true, false, true}, false},
                         {"it lacks one", {}, ChunkSet{true, false, true}, true},
                         {"it has all", {}, ChunkSet{true, true, true}, false}}) {
    SCOPED_TRACE(c.what);
    FollowedJob job;
    job.RecordUpTo(5);
    if (!c.told.empty()) job.Segment(kTwo, 4, c.told);
    const auto heal = Said<Heal>(LoseTwo(job, 5, c.has));
    ASSERT_THAT(heal, SizeIs(1));
    EXPECT_EQ(heal[0].second.plan.base, c.goes_back ? Step(0) : Step(5));
  }
}

TEST(Follower, BeforeAndAfterTheWindowNothingIsLost) {
  FollowedJob early;
  early.RecordUpTo(4);
  EXPECT_EQ(Said<Heal>(LoseTwo(early, 4, std::nullopt)).at(0).second.plan.base, Step(4));
  FollowedJob committed;
  committed.RecordUpTo(5);
  committed.Commit(committed.Save(4));
  EXPECT_EQ(Said<Heal>(LoseTwo(committed, 5, std::nullopt)).at(0).second.plan.base, Step(5));
}

TEST(Follower, ADamagedCheckpointTakesTheJobBackBeforeIt) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(5);
  job.Commit(job.Save(4));
  const auto formed =
      job.Say(kFollows, MeasureFailed{job.lineage(), Step(4), "s1: a checksum is wrong", true});
  ASSERT_THAT(Said<Seal>(formed), SizeIs(2));
  const ViewNumber number = job.run.journal().number;
  LocalState held{.has_state = true, .lineage = job.lineage(), .step = Step(5)};
  held.results = held.sums = ChunkSet(3, false);
  held.measured_part = MeasuredPart{job.lineage(), Step(4), ChunkSet(3, true)};
  job.Say(kTwo, Sealed{number, held});
  const auto heal = Said<Heal>(job.Say(kOne, Sealed{number, held}));
  ASSERT_THAT(heal, SizeIs(2));
  EXPECT_EQ(heal[0].second.plan.base, Step(0));
}

TEST(Follower, ThatCannotReadIsGivenUp) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(4);
  job.Commit(job.Save(4));
  job.Say(kFollows, MeasureFailed{job.lineage(), Step(4), "s1: no such file", false});
  EXPECT_FALSE(job.run.Has(kFollows));
  EXPECT_EQ(job.run.journal().phase, JobPhase::kRunning);
}

TEST(Follower, FactsAndWhatIsAskedFollowFromTheJournalAfterARestart) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(4);
  job.Commit(job.Save(4));
  job.Measured(4, 7);
  StoredJob stored;
  stored.journal = job.run.journal();
  stored.recorded = Step(4);
  stored.recent.Add({job.lineage(), Step(4), Fact(7)}, stored.journal.lineages);
  FollowedJob next(stored);
  next.Join(kTwo);
  const auto gives = Said<GiveMeasure>(next.Join(kOne));
  ASSERT_THAT(gives, SizeIs(1));
  EXPECT_EQ(gives[0].second.sums, Fact(7));
}

TEST(Follower, OfACheckpointThatIsGoneOnFromTheMeasureIsInTheLedger) {
  StoredJob stored = Followed();
  FollowedJob before;
  before.Join(kFollows);
  before.RecordUpTo(5);
  before.Commit(before.Save(4));
  before.Measured(4, 7);
  stored.manifests = before.Save(5);
  ASSERT_THAT(stored.manifests, SizeIs(1));
  stored.journal = before.run.journal();
  stored.journal.resumes = true;
  stored.journal.phase = JobPhase::kQueued;
  stored.recorded = Step(5);
  FollowedJob job(stored);
  job.run.Handle(StartRun{StartNumber(1), PlacesOf(1)}, kNow);
  const auto formed = job.Join(kOne);
  ASSERT_THAT(Said<Seal>(formed), SizeIs(1));
  const auto planned = job.Say(kOne, Sealed{job.run.journal().number, {}});
  ASSERT_THAT(Of<PersistMeasure>(planned), SizeIs(1));
  EXPECT_EQ(Of<PersistMeasure>(planned)[0].fact.sums, Fact(7));
  EXPECT_THAT(Said<GiveMeasure>(job.Say(kOne, HoldsBase{job.run.journal().number, 0})), SizeIs(1));
}

// What it brings is in the ledger: another number would be a member's own.
TEST(Follower, OnlyRecordsThatBringWhatItMeasuredAreTaken) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(6);
  job.Commit(job.Save(4));
  job.Measured(4, /*limb=*/8);
  const auto untaken = Of<Announce>(job.RecordUpTo(7));
  ASSERT_THAT(untaken, SizeIs(1));
  EXPECT_EQ(untaken[0].text,
            "a record by worker-0 is not taken: what it brings is not what the follower measured "
            "of the state of step 4");
  EXPECT_EQ(job.run.Status().step, Step(6));
  FollowedJob other;
  other.Join(kFollows);
  other.RecordUpTo(6);
  other.Commit(other.Save(4));
  other.Measured(4, 7);
  other.RecordUpTo(7);
  EXPECT_EQ(other.run.Status().step, Step(7));
}

// ---- what goes wrong with the checkpoint that is to be measured

// Says how one process ended.
void Ends(FollowedJob& job, const MemberId& id) {
  ProcessExited exited;
  exited.job = "job";
  exited.start = StartNumber(1);
  exited.name = id.name;
  exited.lanes.incarnation = id.incarnation;
  job.run.Handle(ExitTold{exited}, job.now);
  job.run.Handle(MemberDown{id}, job.now);
}

// Its commit failed, all workers died and the job went back: what is known of that commit says
// nothing of the same state in the next lineage.
TEST(Follower, WhatFailedBeforeARewindHoldsUpNothingAfterIt) {
  FollowedJob job;
  job.Join(kFollows);
  job.RecordUpTo(5);
  const std::vector<Manifest> manifests = job.Save(4);
  ASSERT_THAT(manifests, SizeIs(1));
  job.run.Handle(ManifestFailed{"job", manifests[0].lineage, Step(4), "no space"}, job.now);
  Ends(job, kOne);
  Ends(job, kTwo);
  const MemberId next = Id("worker-0", 2);
  job.Join(next);
  job.Say(next, Sealed{job.run.journal().number, {}});
  job.Say(next, HoldsBase{job.run.journal().number, 0});
  ASSERT_EQ(job.run.journal().phase, JobPhase::kRunning);
  ASSERT_EQ(job.lineage(), LineageNumber(2));
  job.recorded = 0;
  job.RecordUpTo(6, next);
  ASSERT_THAT(job.run.Status().waits_for, HasSubstr("measure of step 4"));
  const auto sealed = Said<Seal>(job.Live(seconds(70)));
  EXPECT_THAT(sealed, SizeIs(1)) << "members are asked what has become of its parts";
}

// Nobody measures the state after the last step: its checkpoint fails as that of any job.
TEST(Follower, APartOfTheLastStateThatFailsIsWrittenAgainInAnotherView) {
  FollowedJob job;
  job.Join(kFollows);
  for (const int64_t s : {4, 8, 12, 16}) {
    job.RecordUpTo(s);
    job.Commit(job.Save(s));
    job.Measured(s, 7);
  }
  job.RecordUpTo(20);
  const auto failed =
      Of<Announce>(job.Say(kOne, SegmentFailed{job.lineage(), Step(20), "no space"}));
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(failed[0].text, "checkpoint of step 20 was given up: worker-0: no space");
  EXPECT_THAT(Said<Seal>(job.Live(seconds(2))), SizeIs(2));
}

// ---- a worker that leaves while its part is not written

LocalState HeldIn(const FollowedJob& job, std::vector<int32_t> lanes, ChunkSet part) {
  LocalState held{.has_state = true, .lineage = job.lineage(), .step = job.run.Status().step};
  held.results = held.sums = ChunkSet(3, false);
  for (const int32_t lane : lanes) held.lanes.emplace_back(lane);
  held.measured_part = MeasuredPart{job.lineage(), Step(4), std::move(part)};
  return held;
}

// Another coordinator comes after the view in which worker-1 lost its lanes.
class LeavesAfterARestart : public testing::Test {
 protected:
  LeavesAfterARestart() {
    before_.RecordUpTo(5);
    before_.run.Handle(Leavers{{{kTwo.name, LeaveCause::kScaled}}}, kNow);
    Answer(before_);
    before_.RecordUpTo(6);
    stored_.journal = before_.run.journal();
    stored_.recorded = Step(6);
    EXPECT_TRUE(before_.run.Has(kTwo)) << "its part is not written";
  }
  // What is asked when a view forms.
  void Answer(FollowedJob& job) {
    const ViewNumber number = job.run.journal().number;
    job.Say(kOne, Sealed{number, HeldIn(job, {0, 1, 2, 3}, {true, false, true})});
    job.Say(kTwo, Sealed{number, HeldIn(job, {}, {false, true, false})});
    for (const MemberId& id : {kOne, kTwo}) job.Say(id, HoldsBase{number, 0});
  }
  void ComeBack(FollowedJob& job) {
    for (const MemberId& id : {kTwo, kOne}) job.Join(id, stored_.journal.number);
  }

  FollowedJob before_;
  StoredJob stored_;
};

TEST_F(LeavesAfterARestart, OnlyWhenItsPartIsWritten) {
  FollowedJob job(stored_);
  ComeBack(job);
  EXPECT_TRUE(job.run.Has(kTwo)) << "whether it still writes a part is not known";
  ASSERT_GT(job.run.journal().number, stored_.journal.number) << "it is asked";
  Answer(job);
  ASSERT_EQ(job.run.journal().phase, JobPhase::kRunning);
  job.recorded = 6;
  job.Live(seconds(1));
  EXPECT_TRUE(job.run.Has(kTwo)) << "it does";
  job.Segment(kTwo, 4, {1});
  job.Live(seconds(1));
  EXPECT_FALSE(job.run.Has(kTwo));
  EXPECT_EQ(job.run.journal().rewinds, 0);
}

// ---- where there is no room for it

// Two workers on "host", which has two slots, and the follower on "other", which has one.
class FollowerWithoutRoom : public testing::Test {
 protected:
  void Start(int32_t workers_min) {
    desk_.Give(AgentUp{HelloOf("other", 1)});
    JobSpec spec = SpecOf(workers_min, 2);
    spec.training.validation = Followed().journal.spec.training.validation;
    desk_.Give(Submit{"job", spec});
    for (const MemberId& id : {kA, kB}) desk_.Join(id, "job", environment_);
    desk_.Join(kFollows, "job", environment_, Role::kFollower);
    desk_.Activate({kA, kB});
    ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
    ASSERT_EQ(desk_.Job().placements.at(kFollowerName).host, "other");
    for (int64_t step = 0; step < 5; ++step) desk_.Record(kA, step);
    desk_.Drain<Announce>();
  }
  // Its agent starts anew, and has no slot.
  void OtherHasNoRoom() {
    AgentHello next = HelloOf("other", 0, /*life=*/2);
    next.follows = HelloOf("other", 1).agent.incarnation;
    desk_.Give(AgentUp{next});
    EXPECT_NE(desk_.Job().placements.at(kFollowerName).host, "other");
  }
  void Commit(int64_t step) {
    desk_.Drain<CommitManifest>();
    desk_.Segment(kA, step, {0, 1, 2}, 1);
    const auto commits = desk_.Drain<CommitManifest>();
    ASSERT_THAT(commits, SizeIs(1));
    desk_.Give(ManifestCommitted{commits[0].manifest});
  }
  void Live(int most, const std::vector<MemberId>& members) {  // seconds
    for (int i = 0; i < 2 * most; ++i) {
      desk_.Wait(std::chrono::milliseconds(500));
      for (const MemberId& id : members) desk_.Say(id, Alive{});
      desk_.Give(Tick{});
    }
  }
  void Seal(const MemberId& id, std::vector<int32_t> lanes) {
    LocalState held{.has_state = true,
                    .lineage = desk_.Job().lineages.back().number,
                    .step = Step(5),
                    .results = ChunkSet(3, false),
                    .sums = ChunkSet(3, false)};
    for (const int32_t lane : lanes) held.lanes.emplace_back(lane);
    desk_.Say(id, Sealed{desk_.Job().number, held});
  }

  const NumericEnvironment environment_ = WithSums(Followed().journal.spec.training.validation);
  Desk desk_{{}, /*slots=*/2};
};

TEST_F(FollowerWithoutRoom, AWorkerBeyondTheLeastNumberGivesItItsPlace) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers_min=*/1));
  ASSERT_NO_FATAL_FAILURE(Commit(4));
  OtherHasNoRoom();
  EXPECT_THAT(desk_.Told(),
              testing::Contains("worker-1 is to leave, because there is no other room for the "
                                "follower of its job"));
  Seal(kA, {0, 1});
  Seal(kB, {2, 3});
  for (const MemberId& id : {kA, kB}) desk_.Say(id, HoldsBase{desk_.Job().number, 0});
  EXPECT_TRUE(desk_.Job().placements.contains("worker-1")) << "its lanes of step 5 are not in";
  desk_.Record(kA, 5);
  desk_.Give(Tick{});
  EXPECT_FALSE(desk_.Job().placements.contains("worker-1"));
  EXPECT_EQ(desk_.Job().placements.at(kFollowerName).host, "host");
  EXPECT_TRUE(desk_.Job().placements.contains("worker-0")) << "nobody else leaves for it";
}

TEST_F(FollowerWithoutRoom, WhereNoWorkerCanGoTheJobWaitsInTheQueueAfterAMinute) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers_min=*/2));
  ASSERT_NO_FATAL_FAILURE(Commit(4));
  OtherHasNoRoom();
  Live(70, {kA, kB});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning) << "nothing waits for the follower yet";
  desk_.Record(kA, 5);
  EXPECT_EQ(desk_.Status().waits_for,
            "step 6 waits for follower-0's measure of step 4; follower-0 waits for a free slot");
  Live(55, {kA, kB});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning);
  desk_.Drain<Announce>();
  Live(15, {kA, kB});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
  EXPECT_THAT(desk_.Told(), testing::Contains(HasSubstr("there has been no room for follower-0")));
  EXPECT_EQ(desk_.Status().job.reason, "needs 3 slots; the cluster has 2");
  desk_.Give(AgentUp{HelloOf("third", 1)});
  EXPECT_NE(desk_.Job().phase, JobPhase::kQueued) << "now there is room for all";
}

TEST_F(FollowerWithoutRoom, WhatWasGivenInTimeKeepsTheJob) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers_min=*/2));
  ASSERT_NO_FATAL_FAILURE(Commit(4));
  OtherHasNoRoom();
  desk_.Record(kA, 5);
  Live(50, {kA, kB});
  desk_.Give(AgentUp{HelloOf("third", 1)});
  EXPECT_EQ(desk_.Job().placements.at(kFollowerName).host, "third");
  Live(60, {kA, kB});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning);
}

// ---- a follower is nobody who trains

TEST_F(FollowerWithoutRoom, AFollowerAloneIsNothingThatRuns) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers_min=*/1));
  EXPECT_TRUE(desk_.Status().may_have_members);
  for (const MemberId& id : {kA, kB}) {
    ProcessExited exited{.job = "job", .start = desk_.StartOf(), .name = id.name};
    exited.lanes.incarnation = id.incarnation;
    desk_.Give(AgentSays{exited});
    desk_.Give(MemberDown{id});
  }
  ASSERT_THAT(desk_.Status().members, SizeIs(1));
  EXPECT_FALSE(desk_.Status().may_have_members);
  JobSpec other = desk_.Job().spec;
  other.runtime.fingerprint_every = 3;
  desk_.DrainAll();
  desk_.Give(Submit{"job", other});
  EXPECT_EQ(desk_.Job().spec.runtime.fingerprint_every, 3) << "nobody trains";
  const auto left = desk_.Sent<Leave>();
  ASSERT_THAT(left, SizeIs(1)) << "its next process asks for the job as it is now";
  EXPECT_EQ(left[0].first, kFollowerName);
  EXPECT_EQ(left[0].second.exit_code, kExitLater);
}

// A job with devices fits on other hosts only if these have enough for its follower, too.
TEST(FollowerWithDevices, AHostIsNotLeftOutWhereTheOthersHaveTooFewDevices) {
  Desk desk({}, /*slots=*/0);
  AgentHello two = HelloOf("two", 4), one = HelloOf("one", 4);
  two.devices = {{"0"}, {"1"}};
  one.devices = {{"0"}};
  desk.Give(AgentUp{two});
  JobSpec spec = SpecOf(1, 1);
  spec.runtime.devices = 1;
  spec.training.validation = Followed().journal.spec.training.validation;
  desk.Give(Submit{"job", spec});
  desk.Give(AgentUp{one});
  ASSERT_EQ(desk.Job().placements.at("worker-0").host, "two");
  ProcessExited gave_up{.job = "job", .start = desk.StartOf(), .name = "worker-0"};
  gave_up.exit_code = 1;
  gave_up.gave_up = true;
  desk.Give(AgentSays{gave_up});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed) << "elsewhere there is room for one of the two";
}

}  // namespace
}  // namespace muster::coordinator
