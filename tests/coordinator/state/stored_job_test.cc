#include "coordinator/state/stored_job.h"

#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"

namespace muster::coordinator {
namespace {

const MemberId kMember{"worker-0", {1, 1}};

StoredJob StoppedJob() {
  StoredJob job;
  job.journal.id = "a";
  job.journal.phase = JobPhase::kStopped;
  job.journal.ending = {.stop_asked = true, .stop_at = Step(3), .digest = "digest"};
  job.journal.ending.exit_code = kExitStopped;
  job.journal.view.emplace().members = {{.id = kMember}};
  job.waits_for = "needs 9 slots";
  return job;
}

template <class A>
const A& At(const std::vector<Action>& actions, size_t i) {
  return std::get<A>(actions.at(i));
}

TEST(StoredJob, InTheQueueKeepsItsResultAndNothingElseOfHowItEnded) {
  StoredJob job = StoppedJob();
  const auto actions = Enqueue(job, "submitted again");
  ASSERT_EQ(actions.size(), 2u);
  const JobJournal& j = At<PersistJob>(actions, 0).job;
  EXPECT_EQ(j.phase, JobPhase::kQueued);
  EXPECT_FALSE(j.ending.stop_asked || j.ending.stop_at);
  EXPECT_EQ(j.ending.digest, "digest") << "of what it reached";
  EXPECT_EQ(j.ending.exit_code, 0);
  EXPECT_TRUE(j.resumes);
  EXPECT_EQ(j.lanes.Gone().count(kMember.incarnation), 1u) << "of its earlier start";
  EXPECT_EQ(job.waits_for, "");
  EXPECT_EQ(At<Announce>(actions, 1).text, "submitted again");
}

TEST(StoredJob, IsCancelledOrStoppedBeforeItStarts) {
  for (const bool stop : {true, false}) {
    StoredJob job;
    const auto actions = stop ? StopAtRest(job) : CancelAtRest(job);
    EXPECT_EQ(job.journal.phase, stop ? JobPhase::kStopped : JobPhase::kCancelled);
    EXPECT_EQ(At<PersistJob>(actions, 0).job.ending.exit_code, kExitStopped);
    EXPECT_EQ(At<PersistJob>(actions, 0).job.ending.stop_asked, stop);
    EXPECT_EQ(At<Announce>(actions, 1).event, "done");
  }
}

// It was done, perhaps, and is made longer.
TEST(StoredJob, TakenOutOfTheQueueItSaysWhatStays) {
  struct Case {
    int64_t steps;
    std::string digest;
    std::string what_stays;
  };
  const std::vector<Case> cases = {
      {0, "", "before it started"},
      {20, "digest", "before it went on; its result after 20 steps stays"},
      {1, "digest", "before it went on; its result after 1 step stays"},
      {20, "", "before it went on after 20 steps"},
  };
  for (const Case& c : cases) {
    for (const bool stop : {true, false}) {
      StoredJob job;
      job.journal.phase = JobPhase::kDone;
      job.journal.reason = "all steps are done";
      job.journal.ending.digest = c.digest;
      job.recorded = Step(c.steps);
      Enqueue(job, "submitted again, with more steps");
      const auto actions = stop ? StopAtRest(job) : CancelAtRest(job);
      const JobJournal& j = At<PersistJob>(actions, 0).job;
      EXPECT_EQ(j.reason, (stop ? "stopped " : "cancelled ") + c.what_stays);
      EXPECT_EQ(j.ending.digest, c.digest);
      EXPECT_EQ(j.ending.exit_code, kExitStopped);
    }
  }
}

TEST(StoredJob, ThatCouldGoOnIsCancelledForGood) {
  StoredJob stopped = StoppedJob();
  stopped.recent.fingerprints[Step(3)] = {};
  const auto actions = CancelAtRest(stopped);
  const JobJournal& j = At<PersistJob>(actions, 0).job;
  EXPECT_EQ(j.phase, JobPhase::kCancelled);
  EXPECT_EQ(j.reason, "cancelled after it was stopped");
  EXPECT_EQ(j.ending.exit_code, kExitStopped);
  EXPECT_EQ(j.ending.digest, "digest") << "of what it reached";
  EXPECT_TRUE(stopped.recent.fingerprints.empty()) << "nothing goes on from there";
  StoredJob failed = StoppedJob();
  failed.journal.phase = JobPhase::kFailed;
  failed.journal.reason = "worker-0 crashed";
  CancelAtRest(failed);
  EXPECT_EQ(failed.journal.reason, "cancelled after it failed: worker-0 crashed");
}

TEST(StoredJob, IsDeletedOnceAtATimeAndAgainAfterAFailure) {
  StoredJob job = StoppedJob();
  EXPECT_EQ(At<DeleteJob>(BeginDeletion(job), 1).id, "a");
  EXPECT_TRUE(BeginDeletion(job).empty()) << "it is under way";
  DeletionFailed(job, "no permission");
  EXPECT_EQ(job.journal.reason, "could not be deleted: no permission; delete it again");
  EXPECT_FALSE(BeginDeletion(job).empty());
}

TEST(StoredJob, NotesEachExitOnce) {
  StoredJob job = StoppedJob();
  ProcessExited exited;
  EXPECT_TRUE(NoteExit(job, exited).empty()) << "nobody knows which process that was";
  exited.lanes.incarnation = kMember.incarnation;
  EXPECT_EQ(NoteExit(job, exited).size(), 1u);
  EXPECT_TRUE(NoteExit(job, exited).empty());
  exited.lanes.total = 5;
  job.journal.deleting = true;
  EXPECT_TRUE(NoteExit(job, exited).empty());
}

// The worker that makes it ends after its job.
TEST(StoredJob, KeepsTheTextThatTheTrainedModelMade) {
  StoredJob job = StoppedJob();
  job.journal.phase = JobPhase::kDone;
  job.journal.start = StartNumber(4);
  ProcessExited exited;
  exited.sample = "int main";
  exited.start = StartNumber(3);
  EXPECT_TRUE(NoteExit(job, exited).empty()) << "of an earlier start";
  exited.start = StartNumber(4);
  const auto actions = NoteExit(job, exited);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(At<PersistJob>(actions, 0).job.ending.sample, "int main");
  EXPECT_TRUE(NoteExit(job, exited).empty()) << "told again";
  exited.sample.clear();
  NoteExit(job, exited);
  EXPECT_EQ(job.journal.ending.sample, "int main") << "other workers make none";
  Enqueue(job, "submitted again, with more steps");
  EXPECT_EQ(job.journal.ending.sample, "");
}

TEST(StoredJob, OnlyAQueuedJobSaysWhatItWaitsFor) {
  StoredJob job = StoppedJob();
  EXPECT_EQ(StatusOf(job).waits_for, "");
  job.journal.phase = JobPhase::kQueued;
  EXPECT_EQ(StatusOf(job).waits_for, "needs 9 slots");
  EXPECT_EQ(StatusOf(job).job.reason, "needs 9 slots");
}

}  // namespace
}  // namespace muster::coordinator
