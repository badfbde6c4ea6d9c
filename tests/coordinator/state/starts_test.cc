// What was said for one start of a job does not count for another (docs/protocol.md section 2).
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

muster::Join JoinFor(StartNumber start, const MemberId& id, const std::string& job = "job") {
  muster::Join join;
  join.job = job;
  join.start = start;
  join.id = id;
  join.environment = Environment();
  return join;
}

ProcessExited ExitOf(StartNumber start, int code) {
  ProcessExited exited;
  exited.job = "job";
  exited.start = start;
  exited.name = "worker-1";
  exited.exit_code = code;
  exited.cause = "ended";
  return exited;
}

// A job that failed and was submitted again: it is in its second start, in which two members train.
StartNumber RunASecondTime(Desk& desk) {
  RunTwo(desk);
  const StartNumber first = desk.StartOf();
  desk.Give(AgentSays{ExitOf(first, kExitBadData)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  desk.Give(Submit{"job", SpecOf(1, 2)});
  const std::vector<MemberId> members = {Id("worker-0", 2), Id("worker-1", 2)};
  for (const MemberId& id : members) desk.Join(id);
  desk.Activate(members);
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  desk.Drain<Announce>();
  return first;
}

TEST(Starts, WhoWasToldOfADeletedJobDoesNotTrainInTheNextOfItsId) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 1)});
  const StartNumber first = desk.StartOf();
  desk.Give(Cancel{"job"});
  desk.Give(Delete{"job"});
  desk.Give(JobDeleted{"job", ""});
  JobSpec other = SpecOf(1, 1);
  other.training.seed = 7;
  desk.Give(Submit{"job", other});
  ASSERT_NE(desk.StartOf(), first);
  desk.Drain<Announce>();
  desk.Say(kA, JoinFor(first, kA));
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.exit_code, kExitLater);
  EXPECT_THAT(leave[0].second.reason, HasSubstr("it was told of another start of the job"));
  EXPECT_THAT(desk.Status().members, IsEmpty());
  desk.Say(kA, JoinFor(desk.StartOf(), kA));
  EXPECT_EQ(desk.Status().members.size(), 1u);
}

// By its first start an agent tells a job from an earlier one of its id.
TEST(Starts, AJobKeepsItsFirstStartAndTheNextOfItsIdHasAnother) {
  Desk desk;
  const auto first_start = [&] {
    const auto wanted = desk.Drain<ToHost>();
    return wanted.empty() ? StartNumber(0) : wanted.back().wanted.jobs.at(0).first_start;
  };
  desk.Give(Submit{"job", SpecOf(1, 1)});
  const StartNumber first = desk.StartOf();
  EXPECT_EQ(first_start(), first);
  desk.Give(Stop{"job"});
  desk.Drain<ToHost>();
  desk.Give(Submit{"job", SpecOf(1, 1)});
  EXPECT_NE(desk.StartOf(), first);
  EXPECT_EQ(first_start(), first) << "the job goes on";
  desk.Give(Cancel{"job"});
  desk.Give(Delete{"job"});
  desk.Give(JobDeleted{"job", ""});
  desk.Drain<ToHost>();
  desk.Give(Submit{"job", SpecOf(1, 1)});
  EXPECT_EQ(first_start(), desk.StartOf());
}

TEST(Starts, AgentsHearOfTheJobsRetries) {
  for (const int32_t restarts : {kDefaultRestarts, 0, 12}) {
    Desk desk;
    JobSpec spec = SpecOf(1, 1);
    spec.runtime.restarts = restarts;
    desk.Give(Submit{"job", spec});
    const auto wanted = desk.Drain<ToHost>();
    ASSERT_FALSE(wanted.empty());
    EXPECT_EQ(wanted.back().wanted.jobs.at(0).restarts, restarts);
  }
}

TEST(Starts, AJobThatIsPutBackStartsAnew) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  const StartNumber first = desk.coordinator().jobs().JobOf("job")->start;
  JobSpec other = SpecOf(1, 2);
  other.runtime.fingerprint_every = 3;
  desk.Give(Submit{"job", other});
  const StartNumber second = desk.coordinator().jobs().JobOf("job")->start;
  EXPECT_NE(second, first);
  const auto wanted = desk.Drain<ToHost>();
  ASSERT_FALSE(wanted.empty());
  EXPECT_EQ(wanted.back().wanted.jobs.at(0).start, second);
  desk.Say(kA, JoinFor(first, kA));
  EXPECT_THAT(desk.Status().members, IsEmpty());
}

TEST(Starts, ARestartOfTheCoordinatorKeepsTheNumberAndGivesOthersToOthers) {
  Desk before;
  RunTwo(before);
  const StartNumber start = before.StartOf();
  Coordinator after("cluster", TermNumber(2), Settings(), {.jobs = {before.Job()}}, Time{});
  EXPECT_EQ(after.jobs().Find("job")->start, start);
  muster::Join join = JoinFor(start, kA);
  join.placement = before.Job().placements.at("worker-0").number;
  join.sealed = ViewNumber(1);
  join.term = TermNumber(1);
  after.Handle(MemberSays{kA, join}, Time{});
  EXPECT_EQ(after.jobs().StatusOf("job").members.size(), 1u);
  after.Handle(AgentUp{HelloOf("host", 8)}, Time{});
  after.Handle(Submit{"next", SpecOf(1, 1)}, Time{});
  EXPECT_GT(after.jobs().Find("next")->start, start);
}

TEST(Starts, AQueuedJobTellsNobodyWhatItIs) {
  Desk desk({}, /*slots=*/1);
  desk.Give(Submit{"job", SpecOf(2, 2)});
  EXPECT_FALSE(desk.coordinator().jobs().JobOf("job").has_value());
}

TEST(Starts, AnExitOfAnEarlierStartEndsNothing) {
  Desk desk;
  const StartNumber first = RunASecondTime(desk);
  desk.Give(AgentSays{ExitOf(first, kExitBadData)});
  ProcessExited gave_up = ExitOf(first, kExitFailed);
  gave_up.gave_up = true;
  desk.Give(AgentSays{gave_up});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk.Status().members.size(), 2u);
  desk.Give(AgentSays{ExitOf(desk.StartOf(), kExitBadData)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
}

// The agent's word and the member's come on two sessions.
TEST(Starts, WhoseEndIsKnownDoesNotTakePartWhenItsJoinComesLate) {
  Desk desk;
  RunTwo(desk);
  const MemberId late = Id("worker-1", 9);
  ProcessExited exited = ExitOf(desk.StartOf(), kExitFailed);
  exited.lanes.incarnation = late.incarnation;
  desk.Give(AgentSays{exited});
  desk.Say(late, JoinFor(desk.StartOf(), late));
  EXPECT_EQ(desk.Status().members.size(), 2u);
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);

  // Once its successor is in a view, the account of lanes knows it no more.
  const MemberId next = Id("worker-1", 10);
  desk.Say(next, JoinFor(desk.StartOf(), next));
  desk.Activate({kA, next});
  desk.Say(late, JoinFor(desk.StartOf(), late));
  EXPECT_EQ(desk.Status().members.size(), 2u);
  EXPECT_EQ(desk.Status().members.back().member.id, next);
}

// The agent starts them when it hears of the new start, which it has been told already.
TEST(Starts, WhoLeftAnEarlierStartIsNotAskedForAgain) {
  Desk desk;
  const StartNumber first = RunASecondTime(desk);
  for (const int code : {kExitDone, kExitStopped, kExitLater})
    desk.Give(AgentSays{ExitOf(first, code)});
  EXPECT_THAT(desk.Drain<ToHost>(), IsEmpty());
  desk.Give(AgentSays{ExitOf(desk.StartOf(), kExitLater)});
  EXPECT_EQ(desk.Drain<ToHost>().size(), 1u) << "a person told it to go; its job goes on";
}

TEST(Starts, WhatAWorkerOfAnEarlierStartHadRunIsCounted) {
  Desk desk;
  const StartNumber first = RunASecondTime(desk);
  ProcessExited exited = ExitOf(first, kExitStopped);
  exited.name = kA.name;
  exited.lanes.incarnation = kA.incarnation;
  exited.lanes.total = 3;
  const int64_t before = desk.Job().lanes.recomputed();
  desk.Give(AgentSays{exited});
  EXPECT_EQ(desk.Job().lanes.recomputed(), before + 3);
  EXPECT_EQ(desk.Status().members.size(), 2u) << "worker-0 of this start is another incarnation";
}

TEST(Starts, TheDigestOfAnEarlierStartEndsNothing) {
  Desk desk;
  RunTwo(desk);
  const StartNumber first = desk.StartOf();
  desk.Give(Stop{"job"});
  const auto given = desk.Sent<GiveCommand>();
  ASSERT_EQ(given.size(), 1u);
  desk.Record(kA, 0, {given[0].second.command});
  desk.Segment(kA, 1, {0}, 1);
  desk.Segment(kB, 1, {1}, 1);
  const auto commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  desk.Give(ManifestCommitted{commit[0].manifest});
  const auto asked = desk.Drain<ComputeDigest>();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].start, first);
  desk.Give(AgentSays{ExitOf(first, kExitBadData)});  // while the digest is computed
  ASSERT_EQ(desk.Job().phase, JobPhase::kFailed);
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Give(DigestDone{"job", first, "abc", ""});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStarting);
  EXPECT_EQ(desk.Job().ending.digest, "");
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStarting) << "nobody has asked for it";
}

// Its members are not there yet, but they train.
TEST(Starts, AJobWhoseMembersMayComeBackIsNotPutBack) {
  Desk before;
  RunTwo(before);
  JobSpec other = SpecOf(1, 2);
  other.runtime.fingerprint_every = 3;
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  desk.Give(Submit{"job", other});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk.Job().spec.runtime.fingerprint_every, SpecOf(1, 2).runtime.fingerprint_every);
  EXPECT_TRUE(desk.Status().may_have_members);
  for (int i = 0; i < 31; ++i) {  // as long as members are waited for
    desk.Wait(milliseconds(100));
    desk.Give(Tick{});
  }
  EXPECT_FALSE(desk.Status().may_have_members);
  desk.Give(Submit{"job", other});
  EXPECT_EQ(desk.Job().spec.runtime.fingerprint_every, 3) << "nobody came";
}

// It has nothing of the job, and would be there as long as nobody trains.
TEST(Starts, AJobOfWhichOnlyTheReaderIsLeftIsPutBack) {
  JobSpec spec = SpecOf(1, 2);
  spec.training.data.format = DataFormat::kStream;
  spec.training.data.fields = {{"x", TensorType::kFloat32, {2}}};
  spec.training.stream = StreamFrom::kSocket;
  spec.runtime.stream = {.path = "/in", .max_bytes = 1 << 10};
  Desk desk;
  desk.Give(Submit{"job", spec});
  const MemberId reader = Id(kReaderName);
  desk.Join(reader, "job", {}, Role::kReader);
  ASSERT_THAT(desk.Status().members, SizeIs(1));
  desk.Drain<ToMembers>();
  spec.runtime.stream.host = "other";
  desk.Give(Submit{"job", spec});
  EXPECT_EQ(desk.Job().spec.runtime.stream.host, "other");
  const auto told = desk.Drain<ToMembers>();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0].members, ElementsAre(reader));
  EXPECT_EQ(std::get<Leave>(told[0].message).exit_code, kExitLater);
}

// Whoever is turned away is nobody's member: it is not remembered.
TEST(Starts, WhoIsTurnedAwayMayJoinAnotherJob) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 1)});
  desk.Give(Submit{"next", SpecOf(1, 1)});
  desk.Say(kA, JoinFor(StartNumber(5), kA));
  EXPECT_EQ(desk.coordinator().JobOfMember(kA), "");
  desk.Join(kA, "next");
  EXPECT_EQ(desk.coordinator().JobOfMember(kA), "next");
  EXPECT_EQ(desk.Status("next").members.size(), 1u);
}

}  // namespace
}  // namespace muster::coordinator
