// Several jobs in one coordinator: slots, the queue, and that no job meets another's members.
#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// worker-0 of job `job`: names repeat, incarnations do not.
MemberId WorkerOf(const std::string& job, int life = 1) {
  return {"worker-0", {static_cast<uint64_t>(life), std::hash<std::string>()(job)}};
}

void RunAlone(Desk& desk, const std::string& job) {
  desk.Give(Submit{job, SpecOf(1, 1)});
  desk.Join(WorkerOf(job), job);
  desk.Activate({WorkerOf(job)}, job);
  ASSERT_EQ(desk.Job(job).phase, JobPhase::kRunning) << job;
}

std::vector<std::string> WantedJobs(const Wanted& wanted) {
  std::vector<std::string> jobs;
  for (const JobProcesses& job : wanted.jobs)
    jobs.push_back(job.job + ":" + std::to_string(job.processes.size()));
  return jobs;
}

TEST(Slots, NothingStartsBeforeAnAgentHasSaidHello) {
  Desk desk({}, /*slots=*/0);
  desk.Give(AgentDown{HelloOf("host", 0).agent});
  desk.Give(Submit{"job", SpecOf(1, 2)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kQueued);
  EXPECT_EQ(desk.Job().reason, "waits for a host agent");
  desk.Give(AgentUp{HelloOf("host", 1)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kChecking);
}

TEST(Slots, AJobTakesWhatIsFreeUpToItsMostAndGrowsLater) {
  Desk desk({}, /*slots=*/3);
  desk.Give(Submit{"job", SpecOf(1, 8)});
  EXPECT_EQ(WorkersOf(desk.Job()), 3);
  const auto wanted = desk.Drain<ToHost>();
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_THAT(WantedJobs(wanted[0].wanted), ElementsAre("job:3"));
  for (const MemberId& id : {kA, kB, kC}) desk.Join(id);
  EXPECT_EQ(desk.Job().number, ViewNumber(1)) << "all that it was granted are there";
  desk.Activate({kA, kB, kC});
  desk.Give(AgentUp{HelloOf("another", 5)});
  EXPECT_EQ(WorkersOf(desk.Job()), 3) << "it has only just begun";
  for (int i = 0; i < 61; ++i) {
    desk.Wait(seconds(1));
    for (const MemberId& id : {kA, kB, kC}) desk.Say(id, Alive{Step(0), ""});
    desk.Give(Tick{});
  }
  EXPECT_EQ(WorkersOf(desk.Job()), 8) << "it grows into what is free";
}

TEST(Slots, OfTwoAgentsAreAdded) {
  Desk desk({}, /*slots=*/1);
  desk.Give(Submit{"job", SpecOf(2, 2)});
  EXPECT_EQ(desk.Job().reason, "needs 2 slots; the cluster has 1");
  EXPECT_THAT(desk.Told(), ElementsAre("submitted", "waits: needs 2 slots; the cluster has 1"));
  desk.Give(AgentUp{HelloOf("another", 1)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kChecking);
}

TEST(Slots, AreHeldWhenTheAgentComesBackWithFewer) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}}, /*slots=*/1);
  desk.Give(Submit{"next", SpecOf(1, 1)});
  EXPECT_EQ(desk.Job("next").reason, "needs 1 slot; 0 of 1 are free");
  desk.Give(AgentUp{HelloOf("host", 3)});
  EXPECT_EQ(desk.Job("next").phase, JobPhase::kChecking);
}

TEST(SeveralJobs, RunAtOnceAndTheAgentIsToldOfAll) {
  Desk desk;
  RunAlone(desk, "one");
  desk.Drain<ToHost>();
  RunAlone(desk, "two");
  const auto wanted = desk.Drain<ToHost>();
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_THAT(WantedJobs(wanted[0].wanted), ElementsAre("one:1", "two:1"));
  EXPECT_EQ(desk.Job("one").number, ViewNumber(1)) << "the other's worker-0 is none of its own";
}

// Records of two jobs alternate within one term, each in its own ledger.
TEST(SeveralJobs, RecordsOfTwoJobsAlternate) {
  Desk desk;
  RunAlone(desk, "one");
  RunAlone(desk, "two");
  desk.Drain<Announce>();
  std::vector<std::string> order;
  for (int64_t step = 0; step < 3; ++step)
    for (const std::string job : {"one", "two"}) {
      desk.Record(WorkerOf(job), step, {}, job);
      for (const PersistRecords& persisted : desk.Drain<PersistRecords>())
        for (const StepRecord& record : persisted.records)
          order.push_back(persisted.job + std::to_string(record.step.value()));
    }
  EXPECT_THAT(order, ElementsAre("one0", "two0", "one1", "two1", "one2", "two2"));
  EXPECT_EQ(desk.Status("one").step, Step(3));
  EXPECT_EQ(desk.Status("two").step, Step(3));
}

TEST(SeveralJobs, ALossInOneLeavesTheOtherAlone) {
  Desk desk;
  RunAlone(desk, "one");
  RunAlone(desk, "two");
  desk.Drain<Announce>();
  desk.Give(MemberDown{WorkerOf("one")});
  for (int i = 0; i < 160; ++i) {  // the only copy of a state is waited for longer than a lease
    desk.Wait(milliseconds(100));
    desk.Say(WorkerOf("two"), Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job("one").phase, JobPhase::kRecovering);
  EXPECT_EQ(desk.Job("two").phase, JobPhase::kRunning);
  desk.Record(WorkerOf("two"), 0, {}, "two");
  const auto acks = desk.Sent<AckRecords>();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].second.below, Step(1));
}

// Incarnations do not repeat: whoever claims that of another job's member is no member.
TEST(SeveralJobs, AMemberOfOneJobCannotJoinAnother) {
  Desk desk;
  RunAlone(desk, "one");
  RunAlone(desk, "two");
  desk.Drain<Announce>();
  desk.Join(WorkerOf("one"), "two");
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_THAT(leave[0].second.reason, HasSubstr("it is a member of job one"));
  desk.Record(WorkerOf("one"), 0, {}, "one");
  EXPECT_EQ(desk.Status("one").step, Step(1)) << "what it says is still its own job's";
  EXPECT_EQ(desk.Status("two").step, Step(0));
}

TEST(SeveralJobs, AnExitNamesItsJob) {
  Desk desk;
  RunAlone(desk, "one");
  RunAlone(desk, "two");
  ProcessExited exited;
  exited.job = "two";
  exited.start = desk.StartOf("two");
  exited.name = "worker-0";
  exited.cause = "exited with status 1";
  exited.gave_up = true;
  desk.Give(AgentSays{exited});
  EXPECT_EQ(desk.Job("one").phase, JobPhase::kRunning);
  EXPECT_EQ(desk.Job("two").phase, JobPhase::kFailed);
}

TEST(SeveralJobs, ComeBackEachByItselfAfterARestart) {
  Desk before;
  RunAlone(before, "one");
  RunAlone(before, "two");
  Desk desk(RecoveredState{.jobs = {before.Job("one"), before.Job("two")}});
  muster::Join join;
  join.job = "two";
  join.start = desk.StartOf("two");
  join.id = WorkerOf("two");
  join.environment = Environment();
  join.sealed = ViewNumber(1);
  desk.Say(join.id, join);
  const auto views = desk.Sent<Activate>();
  ASSERT_EQ(views.size(), 1u) << "it goes on at once, whatever becomes of the other";
  EXPECT_EQ(views[0].second.view.job, "two");
  for (int i = 0; i < 160; ++i) {  // the only copy of a state is waited for longer than a lease
    desk.Wait(milliseconds(100));
    desk.Say(join.id, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job("one").phase, JobPhase::kRecovering);
  EXPECT_EQ(desk.Job("two").number, ViewNumber(1));
}

TEST(SeveralJobs, TheSlotsOfOneThatEndsAreTheNextOnes) {
  Desk desk({}, /*slots=*/2);
  RunAlone(desk, "one");
  RunAlone(desk, "two");
  desk.Give(Submit{"three", SpecOf(1, 1)});
  EXPECT_EQ(desk.Job("three").phase, JobPhase::kQueued);
  desk.Drain<Announce>();
  desk.Give(Cancel{"one"});
  EXPECT_EQ(desk.Job("three").phase, JobPhase::kChecking);
  const auto wanted = desk.Drain<ToHost>();
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_THAT(WantedJobs(wanted[0].wanted), ElementsAre("three:1", "two:1"));
}

// ---- deleting

TEST(Delete, OnlyOfAJobThatHasEnded) {
  Desk desk;
  RunAlone(desk, "one");
  EXPECT_EQ(WhyNotDeleted(desk.Job("one")),
            "job one is running; stop or cancel it before it is deleted");
  desk.Give(Delete{"one"});
  EXPECT_THAT(desk.Drain<DeleteJob>(), IsEmpty());
  desk.Give(Cancel{"one"});
  EXPECT_EQ(WhyNotDeleted(desk.Job("one")), "");
  desk.Drain<Announce>();
  desk.Give(Delete{"one"});
  desk.Give(Delete{"one"});
  EXPECT_EQ(desk.Drain<DeleteJob>().size(), 1u) << "once is enough";
  EXPECT_TRUE(desk.Job("one").deleting);
}

Manifest OneOf(int64_t step) {
  Manifest manifest;
  manifest.job = "one";
  manifest.lineage = LineageNumber(1);
  manifest.step = Step(step);
  return manifest;
}

// A job that has ended, and has these.
RecoveredState Rests(JobPhase phase, const std::vector<int64_t>& steps) {
  RecoveredState found;
  JobJournal job;
  job.id = "one";
  job.submission = 1;
  job.spec = SpecOf(1, 1);
  job.phase = phase;
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  found.jobs = {job};
  for (const int64_t step : steps) found.manifests["one"].push_back(OneOf(step));
  return found;
}

TEST(RemoveCheckpoint, AJobAtRestForgetsItWhenItIsGone) {
  Desk desk(Rests(JobPhase::kStopped, {4, 8}));
  desk.Give(RemoveCheckpoint{"one", LineageNumber(1), Step(8), false, ""});
  EXPECT_THAT(desk.Drain<RemoveManifest>(), IsEmpty()) << "it is the newest";
  desk.Give(RemoveCheckpoint{"one", LineageNumber(1), Step(4), false, "ann"});
  desk.Give(RemoveCheckpoint{"one", LineageNumber(1), Step(4), false, "ann"});
  const auto removes = desk.Drain<RemoveManifest>();
  ASSERT_EQ(removes.size(), 1u) << "once is enough";
  EXPECT_EQ(removes[0].step, Step(4));
  EXPECT_EQ(desk.Status("one").checkpoints.size(), 2u) << "not yet";
  EXPECT_EQ(desk.Status("one").removing.size(), 1u);
  desk.Drain<Announce>();
  desk.Give(ManifestRemoved{"one", LineageNumber(1), Step(4), "ann", "the disk did not answer"});
  EXPECT_EQ(desk.Status("one").checkpoints.size(), 2u) << "it is there";
  EXPECT_THAT(desk.Status("one").removing, IsEmpty());
  EXPECT_EQ(desk.Drain<Announce>().at(0).fields.at("deleted"), "false");
  desk.Give(RemoveCheckpoint{"one", LineageNumber(1), Step(4), false, "ann"});
  desk.Give(ManifestRemoved{"one", LineageNumber(1), Step(4), "ann", ""});
  EXPECT_THAT(desk.Status("one").checkpoints, ElementsAre(std::pair(LineageNumber(1), Step(8))));
  EXPECT_EQ(desk.Status("one").removals, 2);
  const auto told = desk.Drain<Announce>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].text, "the checkpoint of step 4, lineage 1 was deleted, as ann asked");
  desk.Give(RemoveCheckpoint{"one", LineageNumber(1), Step(8), true, ""});
  EXPECT_EQ(desk.Drain<RemoveManifest>().size(), 1u);
}

TEST(RemoveCheckpoint, WhatAJobMayGoBackToStays) {
  const LineageNumber lineage(1);
  JobStatus status;
  status.job.id = "one";
  status.job.lineages = {{lineage, LineageNumber(0), Step(0), "start"}};
  status.checkpoints = {{lineage, Step(4)}, {lineage, Step(8)}};
  const auto why_not = [&](int64_t step, bool force = false) {
    return WhyNotRemoved(status, lineage, Step(step), force);
  };
  for (const JobPhase phase : kJobPhases) {
    status.job.phase = phase;
    EXPECT_EQ(why_not(2), "") << "nobody goes back there by himself";
    EXPECT_EQ(why_not(4, true).empty(), Ended(phase)) << PhaseName(phase);
    EXPECT_EQ(why_not(8).empty(), false) << PhaseName(phase);
    EXPECT_EQ(why_not(8, true).empty(), Ended(phase)) << PhaseName(phase);
    // What is measured, or trimmed, goes by the checkpoints there are.
    JobStatus pinned = status;
    pinned.job.spec.training.stream.emplace();
    EXPECT_EQ(WhyNotRemoved(pinned, lineage, Step(4), true).empty(),
              Ended(phase) && !CanGoOn(phase))
        << PhaseName(phase);
    EXPECT_EQ(WhyNotRemoved(pinned, lineage, Step(2), false), "");
  }
  status.job.deleting = true;
  EXPECT_EQ(why_not(2), "job one is being deleted");
}

TEST(Delete, TheIdIsFreeOnceNothingIsLeft) {
  Desk desk;
  RunAlone(desk, "one");
  desk.Give(Cancel{"one"});
  desk.Give(Delete{"one"});
  desk.Give(Submit{"one", SpecOf(1, 1)});
  EXPECT_TRUE(desk.Job("one").deleting) << "not yet";
  desk.Give(JobDeleted{"one", ""});
  EXPECT_THAT(desk.coordinator().jobs().Ids(), IsEmpty());
  desk.Give(Submit{"one", SpecOf(1, 1)});
  EXPECT_EQ(desk.Job("one").phase, JobPhase::kChecking);
  EXPECT_THAT(desk.Job("one").lineages, IsEmpty()) << "it is another job";
}

// It is told to every job that runs, twenty times a second, with a time for each member of them
// all.
static_assert(std::is_nothrow_copy_constructible_v<Tick>, "copying it copies what all jobs share");

TEST(Ticks, EachJobTakesTheWordsOfItsOwnMembers) {
  Desk desk;
  RunAlone(desk, "one");
  RunAlone(desk, "two");
  const Time silent_since = desk.now();
  using Heard = std::map<MemberId, Time>;
  while (desk.now() - silent_since < seconds(16)) {  // longer than the only copy is waited for
    desk.Wait(milliseconds(50));
    desk.Give(Tick{std::make_shared<const Heard>(
        Heard{{WorkerOf("one"), desk.now()}, {WorkerOf("two"), silent_since}})});
  }
  EXPECT_EQ(desk.Status("one").members.size(), 1u);
  EXPECT_EQ(desk.Status("two").members.size(), 0u);
}

TEST(Delete, AFailureIsToldAndItCanBeAskedAgain) {
  Desk desk;
  RunAlone(desk, "one");
  desk.Give(Cancel{"one"});
  desk.Give(Delete{"one"});
  desk.Drain<Announce>();
  desk.Give(JobDeleted{"one", "permission denied"});
  EXPECT_THAT(desk.Told(), ElementsAre("could not be deleted: permission denied; delete it again"));
  desk.Give(Delete{"one"});
  EXPECT_EQ(desk.Drain<DeleteJob>().size(), 1u);
}

TEST(Delete, GoesOnAfterARestart) {
  Desk before;
  RunAlone(before, "one");
  before.Give(Cancel{"one"});
  before.Give(Delete{"one"});
  Coordinator after("cluster", TermNumber(2), Settings(), {.jobs = {before.Job("one")}}, Time{});
  const auto actions = after.Handle(Tick{}, Time{});
  EXPECT_TRUE(std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return std::holds_alternative<DeleteJob>(action);
  }));
}

}  // namespace
}  // namespace muster::coordinator
