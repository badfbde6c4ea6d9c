// A job of 6 steps that measures states 4 …: its last state has no step to ride with, and is
// measured by a worker before the job is done (docs/decisions/0120). Whole runs are the
// simulator's.
#include <string>
#include <vector>

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

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kEnd = 6;

// Who was asked.
std::vector<MemberId> Asked(const std::vector<Action>& actions) {
  std::vector<MemberId> asked;
  for (const ToMember& to : Of<ToMember>(actions))
    if (std::holds_alternative<MeasureState>(to.message)) asked.push_back(to.member);
  return asked;
}

StoredJob Validated() {
  StoredJob job;
  job.journal.id = "job";
  job.journal.spec = SpecOf(1, 2);
  job.journal.spec.training.steps = kEnd;
  job.journal.spec.training.validation = {.every_steps = 4};
  job.journal.spec.runtime.checkpoint.keep_best = "validation.loss";
  job.journal.resumes = true;
  return job;
}

class ValidatedJob : public MeasuredJob {
 public:
  using MeasuredJob::MeasuredJob;
  // All steps are done by both workers of view 1.
  ValidatedJob() : MeasuredJob(Validated()) {
    Begin(PlacesOf(2));
    for (int64_t step = 0; step < kEnd; ++step) Record(step);
  }
  void Record(int64_t step) {
    StepRecord r;
    r.lineage = lineage();
    r.step = Step(step);
    r.view = run.journal().view->number;
    r.samples = StepSamples(run.journal().spec.training, 100, r.step);
    r.weight = 4;
    if (step == 4) r.measures = MeasuresOf({{"loss"}}, Fact(9));
    Say(kOne, Records{{r}});
  }
  // The last checkpoint.
  std::vector<Action> Commit() {
    SegmentWritten written{1, lineage(), Step(kEnd), {}};
    written.segment.file = "s1";
    for (const int c : {0, 1, 2}) written.segment.entries.push_back({0, ChunkId(c), 0, 64, 0});
    const auto commits = Of<CommitManifest>(Say(kOne, written));
    if (commits.size() != 1) return {};
    last = commits[0].manifest;
    return run.Handle(ManifestCommitted{last}, now);
  }
  std::vector<Action> Measured(const MemberId& by, float limb) {
    return Say(by, muster::Measured{lineage(), Step(kEnd), Fact(limb)});
  }
  std::vector<Action> Tick() { return run.Handle(coordinator::Tick{}, now += milliseconds(50)); }
  std::vector<Action> Digest() {
    return run.Handle(DigestDone{"job", StartNumber(1), "digest", ""}, now);
  }
  void Ends(const MemberId& id, bool gave_up) {
    ProcessExited exited;
    exited.job = "job";
    exited.start = run.journal().start;
    exited.name = id.name;
    exited.lanes.incarnation = id.incarnation;
    exited.gave_up = gave_up;
    exited.cause = "exit code 1";
    told = run.Handle(ExitTold{exited}, now);
    for (Action& action : run.Handle(MemberDown{id}, now)) told.push_back(std::move(action));
  }
  // They answer for the view that forms, holding the last state.
  std::vector<Action> GoOnWith(const std::vector<MemberId>& members) {
    const ViewNumber number = run.journal().number;
    LocalState held{.has_state = true, .lineage = lineage(), .step = Step(kEnd)};
    held.results = held.sums = ChunkSet(3, false);
    for (const MemberId& id : members) Say(id, Sealed{number, held});
    std::vector<Action> last_told;
    for (const MemberId& id : members) last_told = Say(id, HoldsBase{number, 0});
    return last_told;
  }

  Manifest last;
  std::vector<Action> told;
};

TEST(LastMeasure, ComesBetweenTheLastCheckpointAndTheDigest) {
  ValidatedJob job;
  EXPECT_THAT(Asked(job.Tick()), IsEmpty()) << "the state is not safe yet";
  const auto committed = job.Commit();
  EXPECT_THAT(Asked(committed), ElementsAre(kOne)) << "the lowest rank";
  EXPECT_THAT(Of<ComputeDigest>(committed), IsEmpty());
  EXPECT_EQ(job.run.Status().waits_for, "the end waits for worker-0's measure of step 6");
  EXPECT_THAT(Asked(job.Tick()), IsEmpty()) << "once";
  const auto told = job.Measured(kOne, 7);
  const auto facts = Of<PersistMeasure>(told);
  ASSERT_THAT(facts, SizeIs(1));
  EXPECT_EQ(facts[0].fact, (MeasureFact{job.lineage(), Step(kEnd), Fact(7)}));
  EXPECT_EQ(facts[0].last, MeasuresOf({{"loss"}}, Fact(7)));
  EXPECT_EQ(facts[0].would_be_brought_by, Step(kEnd));
  ASSERT_THAT(Of<SaveMeasure>(told), SizeIs(1)) << "for keep: {best}";
  EXPECT_EQ(Of<SaveMeasure>(told)[0].step, Step(kEnd));
  EXPECT_THAT(Of<PruneManifests>(told), IsEmpty()) << "it may not be readable";
  EXPECT_THAT(Of<ComputeDigest>(told), SizeIs(1));
  const auto done = job.Digest();
  EXPECT_THAT(Of<PruneManifests>(done), SizeIs(1));
  EXPECT_EQ(job.run.journal().phase, JobPhase::kDone);
  EXPECT_EQ(job.run.journal().reason, "all 6 steps are done");
}

TEST(LastMeasure, OfTheOneThatIsLostTheNextIsAsked) {
  ValidatedJob job;
  job.Commit();
  job.Ends(kOne, /*gave_up=*/false);
  EXPECT_THAT(Asked(job.told), IsEmpty()) << "a view forms";
  EXPECT_THAT(Asked(job.GoOnWith({kTwo})), ElementsAre(kTwo));
  EXPECT_THAT(Asked(job.Join(kTwo, job.run.journal().view->number)), ElementsAre(kTwo))
      << "what was said may be lost with its session";
  EXPECT_THAT(Of<PersistMeasure>(job.Measured(kTwo, 7)), SizeIs(1));
}

TEST(LastMeasure, TheFirstAnswerCountsAndOthersEndNobody) {
  ValidatedJob job;
  job.Commit();
  EXPECT_THAT(Of<PersistMeasure>(job.Measured(kTwo, 7)), SizeIs(1)) << "whoever was asked before";
  EXPECT_THAT(Of<PersistMeasure>(job.Measured(kOne, 7)), IsEmpty());
  EXPECT_TRUE(job.run.Has(kOne));
}

TEST(LastMeasure, AnotherCoordinatorReadsTheFactOrAsksAgain) {
  for (const bool has_fact : {false, true}) {
    SCOPED_TRACE(has_fact);
    ValidatedJob before;
    before.Commit();
    StoredJob stored;
    stored.journal = before.run.journal();
    stored.recorded = Step(kEnd);
    stored.manifests = {before.last};
    if (has_fact)
      stored.recent.Add({before.lineage(), Step(kEnd), Fact(7)}, stored.journal.lineages);
    ValidatedJob job(stored);
    const ViewNumber number = stored.journal.view->number;
    std::vector<Action> all = job.Join(kTwo, number);
    for (std::vector<Action> more : {job.Join(kOne, number), job.Tick(), job.Tick()})
      for (Action& action : more) all.push_back(std::move(action));
    EXPECT_THAT(Asked(all), SizeIs(has_fact ? 0 : 1));
    EXPECT_THAT(Of<ComputeDigest>(all), SizeIs(has_fact ? 1 : 0));
  }
}

// What cannot be had loses no training that is done.
TEST(LastMeasure, WithoutWhoMeasuresTheJobIsDoneAndSaysWhy) {
  const struct {
    const char* what;
    std::function<void(ValidatedJob&)> happens;
    const char* why;
  } kRows[] = {
      {"a person stops it", [](ValidatedJob& job) { job.run.Handle(Stop{"job"}, job.now); },
       "the job was stopped first"},
      {"all are given up",
       [](ValidatedJob& job) {
         job.Ends(kTwo, /*gave_up=*/true);
         EXPECT_TRUE(job.run.journal().ending.unmeasured.empty()) << "the other one measures";
         job.Ends(kOne, /*gave_up=*/true);
       },
       "worker-0 ended: exit code 1"},
      {"its hosts are not made",
       [](ValidatedJob& job) {
         job.run.Handle(LaunchFailed{"no hosts", 1}, job.now);
       },
       "no hosts"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.what);
    ValidatedJob job;
    job.Commit();
    row.happens(job);
    EXPECT_EQ(job.run.journal().ending.unmeasured, row.why);
    EXPECT_FALSE(job.run.ended());
    job.Digest();
    EXPECT_EQ(job.run.journal().phase, JobPhase::kDone);
    EXPECT_THAT(job.run.journal().reason,
                HasSubstr(std::string("the last state was not measured: ") + row.why));
  }
}

// Its hosts are gone for good, so nobody is waited for.
TEST(LastMeasure, WhatNobodyCanWriteAgainHasFailed) {
  ValidatedJob job;
  job.Commit();
  job.run.Handle(LaunchFailed{"no hosts", 1}, job.now);
  job.run.Handle(DigestDone{"job", StartNumber(1), "", "the disk did not answer"}, job.now);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kFailed);
  EXPECT_EQ(job.run.journal().reason, "no hosts");
}

TEST(LastMeasure, WrittenAgainTheLastCheckpointTakesNoOtherWithItBeforeItIsRead) {
  ValidatedJob job;
  job.Commit();
  job.Measured(kOne, 7);
  job.run.Handle(DigestDone{"job", StartNumber(1), "", "the disk did not answer"}, job.now);
  const ViewNumber before = job.run.journal().number;
  for (int i = 0; i < 5000 && job.run.journal().number == before; ++i) job.Tick();
  ASSERT_GT(job.run.journal().number, before) << "members write it again";
  job.GoOnWith({kOne, kTwo});
  const auto committed = job.Commit();
  EXPECT_THAT(Of<SaveMeasure>(committed), SizeIs(1));
  EXPECT_THAT(Of<PruneManifests>(committed), IsEmpty())
      << "it may not be readable this time either";
  EXPECT_THAT(Of<ComputeDigest>(committed), SizeIs(1));
  EXPECT_THAT(Of<PruneManifests>(job.Digest()), SizeIs(1));
}

// A process that is not started again, of those that would write it.
TEST(LastMeasure, WhoIsGivenUpWritesNothingAgain) {
  ValidatedJob job;
  job.Commit();
  job.Ends(kTwo, /*gave_up=*/true);
  job.Ends(kOne, /*gave_up=*/true);
  job.run.Handle(DigestDone{"job", StartNumber(1), "", "the disk did not answer"}, job.now);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kFailed);
  EXPECT_EQ(job.run.journal().reason, "worker-0 fails again and again: exit code 1");
}

// It was put back at its end. Its view needs as many workers as every first one of a start, so one
// that has joined does not help.
TEST(LastMeasure, AStartThatCannotBeginIsDoneWithoutIt) {
  for (const bool follower : {false, true}) {
    SCOPED_TRACE(follower);
    ValidatedJob before;
    before.Commit();
    StoredJob stored;
    stored.journal = before.run.journal();
    stored.journal.spec.runtime.workers_min = 2;
    if (follower) stored.journal.spec.training.validation.on = MeasuredOn::kFollower;
    stored.journal.resumes = true;
    stored.recorded = Step(kEnd);
    stored.manifests = {before.last};
    ValidatedJob job(stored);
    job.run.Handle(StartRun{StartNumber(2), PlacesOf(2)}, job.now);
    job.Join(kOne);
    ASSERT_TRUE(job.run.Has(kOne));
    job.Ends(kTwo, /*gave_up=*/true);
    EXPECT_EQ(job.run.journal().ending.unmeasured, "worker-1 ended: exit code 1");
    job.run.Handle(DigestDone{"job", StartNumber(2), "digest", ""}, job.now);
    EXPECT_EQ(job.run.journal().phase, JobPhase::kDone);
  }
}

TEST(LastMeasure, IsNotOfWhatIsStoppedOrNotSaved) {
  StoredJob unsaved = Validated();
  unsaved.journal.spec.runtime.checkpoint.at_end = false;
  ValidatedJob job(unsaved);
  job.run.Handle(StartRun{StartNumber(1), PlacesOf(1)}, job.now);
  job.Join(kOne);
  job.Say(kOne, Sealed{job.run.journal().number, {}});
  job.Say(kOne, HoldsBase{job.run.journal().number, 0});
  for (int64_t step = 0; step < kEnd; ++step) job.Record(step);
  EXPECT_EQ(job.run.journal().phase, JobPhase::kDone);
  ValidatedJob stopped;
  stopped.run.Handle(Stop{"job"}, stopped.now);
  EXPECT_THAT(Asked(stopped.Commit()), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
