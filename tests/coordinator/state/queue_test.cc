// Priorities and preemption, quotas, deadlines, times to live and retries of jobs (docs/hosts.md
// section 10).
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

JobSpec Prior(int32_t priority) {
  JobSpec spec = SpecOf(2, 2);
  spec.queue.priority = priority;
  return spec;
}

// One host of two slots, and jobs that need both.
class QueueTest : public testing::Test {
 protected:
  // Its members live, and nothing else happens.
  void Live(int seconds) {
    for (int i = 0; i < 2 * seconds; ++i) {
      desk_.Wait(std::chrono::milliseconds(500));
      desk_.Say(kA, Alive{});
      desk_.Say(kB, Alive{});
      desk_.Give(Tick{});
    }
  }
  // "job" halts at state 1 and saves it.
  void StopsWithACheckpoint() {
    desk_.Record(kA, 0, {{1, JobCommandKind::kStop}});
    desk_.Segment(kA, 1, {0, 1}, 1);
    Manifest manifest;
    for (const CommitManifest& commit : desk_.Drain<CommitManifest>()) manifest = commit.manifest;
    ASSERT_EQ(manifest.step, Step(1));
    desk_.Give(ManifestCommitted{manifest});
    desk_.Give(DigestDone{"job", desk_.StartOf(), "d", ""});
  }
  void Fails(int exit_code, bool gave_up) {
    ProcessExited exited;
    exited.job = "job";
    exited.start = desk_.StartOf();
    exited.name = "worker-0";
    exited.exit_code = exit_code;
    exited.cause = "exit code " + std::to_string(exit_code);
    exited.gave_up = gave_up;
    desk_.Give(AgentSays{exited});
  }

  Desk desk_{{}, /*slots=*/2};
};

TEST_F(QueueTest, APreemptedJobStopsWithACheckpointAndWaits) {
  RunTwo(desk_, Prior(0));
  desk_.Give(Submit{"high", Prior(1)});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping);
  EXPECT_TRUE(desk_.Job().ending.is_urgent);
  EXPECT_THAT(desk_.Job().reason, HasSubstr("job high has a higher priority"));
  EXPECT_EQ(desk_.Job("high").phase, JobPhase::kQueued);
  StopsWithACheckpoint();
  const auto left = desk_.Sent<Leave>();
  ASSERT_EQ(left.size(), 2u);
  for (const auto& [name, leave] : left) EXPECT_EQ(leave.exit_code, kExitLater);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
  EXPECT_TRUE(desk_.Job().resumes);
  EXPECT_FALSE(desk_.Job().ending.is_urgent);
  EXPECT_EQ(desk_.Job("high").phase, JobPhase::kChecking);
  // Nobody asks for it to go on.
  desk_.Give(Cancel{"high"});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStarting);
  EXPECT_EQ(desk_.Job().submission, 1) << "it has its old place";
}

// Who submits the same file again does not want the work thrown away.
TEST_F(QueueTest, APreemptedJobBeginsNotAnewWhenItIsSubmittedAgain) {
  JobSpec spec = Prior(0);
  spec.runtime.resume.kind = ResumeKind::kNever;
  RunTwo(desk_, spec);
  desk_.Give(Submit{"high", Prior(1)});
  StopsWithACheckpoint();
  ASSERT_EQ(desk_.Job().phase, JobPhase::kQueued);
  desk_.Drain<PersistJob>();
  desk_.Give(Submit{"job", spec});
  EXPECT_THAT(desk_.Drain<PersistJob>(), IsEmpty()) << "nothing is new";
  spec.runtime.workers_min = 1;
  desk_.Give(Submit{"job", spec});
  EXPECT_EQ(desk_.Job().spec.runtime.workers_min, 1);
  EXPECT_EQ(desk_.Job().spec.runtime.resume, Resume{});
  EXPECT_TRUE(desk_.Job().resumes);
}

TEST_F(QueueTest, NobodyPreemptsItsEqual) {
  RunTwo(desk_, Prior(1));
  desk_.Give(Submit{"equal", Prior(1)});
  Live(70);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk_.Job("equal").phase, JobPhase::kQueued);
}

TEST_F(QueueTest, APriorityMayChangeWhileAJobWaitsOrRuns) {
  RunTwo(desk_, Prior(0));
  desk_.Give(Submit{"other", Prior(0)});
  desk_.Drain<PersistJob>();
  QueueSpec queue = Prior(3).queue;
  queue.labels = {{"team", "see"}};
  desk_.Give(SetQueue{"job", queue});
  EXPECT_THAT(desk_.Drain<PersistJob>(), SizeIs(1));
  EXPECT_EQ(desk_.Job().spec.queue, queue);
  desk_.Give(SetQueue{"other", Prior(2).queue});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning) << "it has a higher one still";
  desk_.Give(SetQueue{"other", Prior(4).queue});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping);
}

// Where many jobs wait, each decision takes long.
TEST_F(QueueTest, OnlyAPriorityChangesWhoIsPlaced) {
  desk_.Give(Submit{"other", SpecOf(1, 1)});
  desk_.Give(Submit{"job", SpecOf(1, 2)});
  desk_.Join(kA);
  desk_.Activate({kA});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
  desk_.Give(Cancel{"other"});
  desk_.Wait(std::chrono::seconds(61));  // it may grow now, once somebody looks
  QueueSpec queue = desk_.Job().spec.queue;
  queue.labels = {{"team", "see"}};
  desk_.Give(SetQueue{"job", queue});
  EXPECT_EQ(desk_.Job().spec.queue, queue);
  EXPECT_THAT(desk_.Job().placements, SizeIs(1));
  queue.priority = 1;
  desk_.Give(SetQueue{"job", queue});
  EXPECT_THAT(desk_.Job().placements, SizeIs(2));
}

TEST_F(QueueTest, PlacesAreDecidedOnceForAllThatCame) {
  Coordinator& coordinator = desk_.coordinator();
  coordinator.Take(Submit{"low", Prior(0)}, desk_.now());
  coordinator.Take(Submit{"high", Prior(1)}, desk_.now());
  EXPECT_EQ(desk_.Job("high").phase, JobPhase::kQueued);
  coordinator.Settle(desk_.now());
  EXPECT_EQ(desk_.Job("high").phase, JobPhase::kChecking);
  EXPECT_EQ(desk_.Job("low").phase, JobPhase::kQueued) << "nobody was preempted";
  coordinator.Take(Cancel{"high"}, desk_.now());
  coordinator.Take(Tick{}, desk_.now());
  EXPECT_EQ(desk_.Job("low").phase, JobPhase::kChecking) << "a tick judges who has no place";
}

TEST_F(QueueTest, WhoDoesNotStopInTimeGivesWayWithoutItsCheckpoint) {
  RunTwo(desk_, Prior(0));
  desk_.Give(Submit{"high", Prior(1)});
  Live(58);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping);
  Live(4);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
  EXPECT_EQ(desk_.Job("high").phase, JobPhase::kChecking);
  EXPECT_THAT(desk_.Drain<ToHost>(), Not(IsEmpty())) << "its agent lets the processes go";
}

TEST_F(QueueTest, ADrainIsNotUrgent) {
  desk_.Give(AgentUp{HelloOf("other", 1)});
  RunTwo(desk_, Prior(0));
  desk_.Give(HostEnds{HelloOf("host", 2).agent});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kStopping);
  EXPECT_FALSE(desk_.Job().ending.is_urgent);
}

TEST_F(QueueTest, APersonWhoStopsAPreemptedJobHasItStopped) {
  RunTwo(desk_, Prior(0));
  desk_.Give(Submit{"high", Prior(1)});
  desk_.Give(Stop{"job"});
  Live(70);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping) << "as if the stop had come first";
  StopsWithACheckpoint();
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopped);
  EXPECT_EQ(desk_.Job("high").phase, JobPhase::kChecking);
}

TEST_F(QueueTest, AJobPastItsDeadlineIsStoppedWithACheckpointAndHasFailed) {
  JobSpec spec = Prior(0);
  spec.queue.deadline = 10;
  spec.queue.retries = 3;
  RunTwo(desk_, spec);
  Live(9);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning);
  Live(2);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping);
  StopsWithACheckpoint();
  const JobJournal job = desk_.Job();
  EXPECT_EQ(job.phase, JobPhase::kFailed) << "it is not tried again";
  EXPECT_EQ(job.ending.exit_code, kExitFailed);
  EXPECT_THAT(job.reason, HasSubstr("its deadline has passed: it may run 10 s in all"));
  EXPECT_THAT(job.reason, HasSubstr("the checkpoint of step 1"));
  EXPECT_GE(Seconds(job.ran), 10);
  // It counts over all starts.
  spec.queue.deadline = 20;
  desk_.Give(Submit{"job", spec});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kStarting);
  desk_.Give(Tick{});
  desk_.Wait(std::chrono::seconds(11));
  desk_.Give(Tick{});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kFailed) << "before its first step";
}

// Nothing but time passes: a restart would else know of none of it.
TEST_F(QueueTest, HowLongAJobRanIsWrittenWhereADeadlineLooksAtIt) {
  JobSpec spec = Prior(0);
  spec.queue.deadline = 100;
  RunTwo(desk_, spec);
  desk_.Drain<PersistJob>();
  Live(61);
  const auto written = desk_.Drain<PersistJob>();
  ASSERT_THAT(written, SizeIs(1));
  EXPECT_GE(Seconds(written[0].job.ran), 60);
  Live(30);
  EXPECT_THAT(desk_.Drain<PersistJob>(), IsEmpty()) << "and not at each tick";
  Desk plain({}, 2);
  RunTwo(plain, Prior(0));
  for (int i = 0; i < 100; ++i) {
    plain.Wait(std::chrono::seconds(1));
    for (const MemberId& id : {kA, kB}) plain.Say(id, Alive{});
    plain.Give(Tick{});
  }
  EXPECT_THAT(plain.Drain<PersistJob>(), IsEmpty()) << "nobody looks at it";
}

// Its members are gone, and it is submitted with other fields.
TEST_F(QueueTest, AJobThatIsPutBackHasRunAllTheSame) {
  JobSpec spec = Prior(0);
  spec.queue.deadline = 100;
  desk_.Give(Submit{"job", spec});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kChecking);
  desk_.Wait(std::chrono::seconds(30));
  desk_.Give(Tick{});
  spec.runtime.workers_min = 1;
  desk_.Give(Submit{"job", spec});
  EXPECT_EQ(desk_.Job().spec.runtime.workers_min, 1);
  EXPECT_GE(Seconds(desk_.Job().ran), 30);
}

TEST_F(QueueTest, TimeInTheQueueIsNoTimeOfRunning) {
  RunTwo(desk_, Prior(1));
  JobSpec spec = Prior(0);
  spec.queue.deadline = 10;
  desk_.Give(Submit{"other", spec});
  Live(20);
  EXPECT_EQ(desk_.Job("other").phase, JobPhase::kQueued);
  EXPECT_EQ(desk_.Job("other").ran, Duration{});
}

TEST_F(QueueTest, AFailedJobIsTriedAgainAsOftenAsItSays) {
  JobSpec spec = Prior(0);
  spec.queue.retries = 1;
  RunTwo(desk_, spec);
  const StartNumber first = desk_.StartOf();
  Fails(kExitFailed, /*gave_up=*/true);
  const auto told = desk_.Drain<Announce>();
  bool is_done = false;
  for (const Announce& event : told) is_done |= event.event == "done";
  EXPECT_FALSE(is_done) << "whoever waits for its end goes on waiting";
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStarting);
  EXPECT_NE(desk_.StartOf(), first);
  EXPECT_EQ(desk_.Job().retried, 1);
  EXPECT_TRUE(desk_.Job().resumes);
  Fails(kExitFailed, /*gave_up=*/true);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk_.Job().ending.exit_code, kExitFailed);
  // Who submits it again begins anew.
  desk_.Give(Submit{"job", spec});
  EXPECT_EQ(desk_.Job().retried, 0);
}

TEST_F(QueueTest, WhatWouldFailAgainIsNotTriedAgain) {
  for (const int code : {kExitBadConfiguration, kExitBadData, kExitOtherEnvironment}) {
    Desk desk({}, 2);
    JobSpec spec = Prior(0);
    spec.queue.retries = 5;
    RunTwo(desk, spec);
    ProcessExited exited;
    exited.job = "job";
    exited.start = desk.StartOf();
    exited.name = "worker-0";
    exited.exit_code = code;
    exited.cause = "exit code " + std::to_string(code);
    desk.Give(AgentSays{exited});
    EXPECT_EQ(desk.Job().phase, JobPhase::kFailed) << code;
    EXPECT_EQ(desk.Job().ending.exit_code, code);
  }
}

TEST_F(QueueTest, WhatIsOverIsDeletedAfterItsTimeToLive) {
  JobSpec spec = SpecOf(9, 9);
  spec.queue.time_to_live = 20;
  for (const char* id : {"cancelled", "stopped"}) desk_.Give(Submit{id, spec});
  desk_.Give(Submit{"kept", SpecOf(9, 9)});
  for (const char* id : {"cancelled", "kept"}) desk_.Give(Cancel{id});
  desk_.Give(Stop{"stopped"});
  desk_.Give(Tick{});
  desk_.Wait(std::chrono::seconds(15));
  desk_.Give(Tick{});
  EXPECT_THAT(desk_.Drain<DeleteJob>(), IsEmpty());
  desk_.Wait(std::chrono::seconds(10));
  desk_.Give(Tick{});
  const auto deleted = desk_.Drain<DeleteJob>();
  ASSERT_THAT(deleted, SizeIs(1));
  EXPECT_EQ(deleted[0].id, "cancelled");
  // One that cannot be deleted is tried again, after as long.
  desk_.Give(JobDeleted{"cancelled", "the disk is gone"});
  desk_.Wait(std::chrono::seconds(10));
  desk_.Give(Tick{});
  EXPECT_THAT(desk_.Drain<DeleteJob>(), IsEmpty());
  desk_.Wait(std::chrono::seconds(15));
  desk_.Give(Tick{});
  EXPECT_THAT(desk_.Drain<DeleteJob>(), SizeIs(1));
}

TEST_F(QueueTest, ARestartKnowsHowLongAgoAJobEnded) {
  RecoveredState found;
  JobJournal job{.id = "job", .submission = 1, .spec = SpecOf(1, 1), .phase = JobPhase::kDone};
  found.jobs.push_back(job);
  job.id = "later";
  found.jobs.push_back(job);
  for (JobJournal& ended : found.jobs) ended.spec.queue.time_to_live = 7200;
  found.since_end["job"] = std::chrono::seconds(7201);
  Desk again(std::move(found), 2);
  again.Give(Tick{});
  again.Wait(std::chrono::minutes(59));
  again.Give(Tick{});
  EXPECT_THAT(again.Drain<DeleteJob>(), IsEmpty()) << "the clock may be wrong";
  again.Wait(std::chrono::minutes(1));
  again.Give(Tick{});
  const auto deleted = again.Drain<DeleteJob>();
  ASSERT_THAT(deleted, SizeIs(1));
  EXPECT_EQ(deleted[0].id, "job");
}

TEST_F(QueueTest, ANamespaceHoldsNoMoreThanItsQuota) {
  desk_.Give(SetQuota{"default", {.slots = 1}});
  const auto written = desk_.Drain<PersistQuotas>();
  ASSERT_THAT(written, SizeIs(1));
  EXPECT_EQ(written[0].quotas, (Quotas{{"default", {.slots = 1}}}));
  desk_.Give(Submit{"job", SpecOf(2, 2)});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
  EXPECT_EQ(desk_.Status().waits_for, "needs 2 slots; the quota of namespace default is 1");
  JobSpec elsewhere = SpecOf(2, 2);
  elsewhere.queue.name_space = "other";
  desk_.Give(Submit{"elsewhere", elsewhere});
  EXPECT_EQ(desk_.Job("elsewhere").phase, JobPhase::kChecking) << "nobody waits for it";
  desk_.Give(Cancel{"elsewhere"});
  desk_.Give(SetQuota{"default", {}});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kChecking);
  EXPECT_THAT(desk_.coordinator().quotas(), IsEmpty());
}

TEST_F(QueueTest, ARestartKnowsTheQuotas) {
  RecoveredState found;
  found.quotas = {{"default", {.slots = 1}}};
  Desk again(std::move(found), 2);
  again.Give(Submit{"job", SpecOf(2, 2)});
  EXPECT_EQ(again.Job().phase, JobPhase::kQueued);
}

}  // namespace
}  // namespace muster::coordinator
