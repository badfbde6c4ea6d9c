// Workers that leave while they live, hosts that are drained or end, and jobs that give their place
// to others (docs/hosts.md section 7).
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two hosts of two slots: "host" and "other".
class LeavingTest : public testing::Test {
 protected:
  LeavingTest() { desk_.Give(AgentUp{HelloOf("other", 2)}); }

  // At the beginning of this step, with these lanes of it.
  void Seal(const MemberId& id, int64_t step, std::vector<int32_t> lanes) {
    LocalState held{.has_state = true,
                    .lineage = desk_.Job().lineages.back().number,
                    .step = Step(step),
                    .results = ChunkSet(2, false),
                    .sums = ChunkSet(2, false)};
    for (const int32_t lane : lanes) held.lanes.emplace_back(lane);
    desk_.Say(id, Sealed{desk_.Job().number, held});
  }
  void Hold(const std::vector<MemberId>& members) {
    for (const MemberId& id : members) desk_.Say(id, HoldsBase{desk_.Job().number, 0});
  }
  // Its agent tells that it was.
  void IsKilled(const MemberId& id) {
    ProcessExited exited;
    exited.job = "job";
    exited.start = desk_.StartOf();
    exited.name = id.name;
    exited.signal = 9;
    exited.cause = "killed by SIGKILL";
    exited.lanes.incarnation = id.incarnation;
    desk_.Give(AgentSays{exited});
  }
  // A job of two workers, which hold lanes 0, 1 and 2, 3 of step 5.
  void TrainTwo(int32_t min, int32_t max) {
    RunTwo(desk_, SpecOf(min, max));
    for (int64_t step = 0; step < 5; ++step) desk_.Record(kA, step);
    desk_.Drain<Announce>();
  }
  // A job of two workers and two servers, half of them on each host.
  void RunWithTwoServers() {
    JobSpec spec = SpecOf(2, 2);
    spec.training.sync = Sync::kServer;
    spec.runtime.servers = 2;
    desk_.Give(Submit{"job", spec});
    ASSERT_EQ(Placed().size(), 4u);
    for (const MemberId& id : {kA, kB}) desk_.Join(id);
    for (const MemberId& id : {Id("server-0"), Id("server-1")}) desk_.Join(id, Role::kServer);
    desk_.Activate({kA, kB, Id("server-0"), Id("server-1")});
  }
  // The view in which worker-1 keeps what it has, and nothing else.
  void LosesItsPart() {
    Seal(kA, 5, {0, 1});
    Seal(kB, 5, {2, 3});
    Hold({kA, kB});
  }
  std::vector<std::string> Members() const {
    std::vector<std::string> names;
    const JobJournal job = desk_.Job();
    for (const ViewMember& m : job.view->members) names.push_back(m.id.name);
    return names;
  }
  std::vector<std::string> Placed() const {
    std::vector<std::string> names;
    const JobJournal job = desk_.Job();
    for (const auto& [name, placement] : job.placements)
      if (placement.host) names.push_back(*placement.host + "/" + name);
    return names;
  }

  Desk desk_{{}, /*slots=*/2};
};

TEST_F(LeavingTest, AWorkerKeepsTheLanesItHasAndGoesWhenTheirStepIsDone) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  EXPECT_TRUE(desk_.Job().placements.at("worker-1").leaving);
  EXPECT_THAT(desk_.Told(), Contains(HasSubstr("worker-1 is to leave")));
  LosesItsPart();
  const View view = *desk_.Job().view;
  EXPECT_THAT(Members(), ElementsAre("worker-0", "worker-1"));
  EXPECT_THAT(view.first_lanes.holder_of, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(view.lanes.holder_of, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(view.owner_of, ElementsAre(0, 0));
  EXPECT_THAT(desk_.Sent<Leave>(), IsEmpty()) << "its lanes of step 5 are not in";
  desk_.Record(kA, 5);
  const auto left = desk_.Sent<Leave>();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].first, "worker-1");
  EXPECT_EQ(left[0].second.exit_code, kExitLater);
  EXPECT_THAT(Placed(), ElementsAre("host/worker-0"));
  Seal(kA, 6, {0, 1, 2, 3});
  Hold({kA});
  EXPECT_THAT(Members(), ElementsAre("worker-0"));
  EXPECT_EQ(desk_.Job().recoveries, 0);
  EXPECT_EQ(desk_.Job().rewinds, 0);
}

TEST_F(LeavingTest, OnlyAWorkerOfTheViewTellsThatTheStepIsDone) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  // What is told of an earlier view says nothing of the lanes of this one.
  desk_.Record(kA, 5);
  desk_.Drain<Announce>();
  LosesItsPart();
  EXPECT_THAT(desk_.Sent<Leave>(), IsEmpty());
  EXPECT_THAT(Members(), ElementsAre("worker-0", "worker-1"));
}

TEST_F(LeavingTest, TheAgentIsToldOnceItsPlaceIsTakenBack) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  EXPECT_THAT(desk_.Drain<ToHost>(), IsEmpty());
  LosesItsPart();
  EXPECT_THAT(desk_.Drain<ToHost>(), IsEmpty());
  desk_.Record(kA, 5);
  const auto told = desk_.Drain<ToHost>();
  ASSERT_EQ(told.size(), 1u);
  ASSERT_EQ(told[0].wanted.jobs.size(), 1u);
  EXPECT_EQ(told[0].wanted.jobs[0].processes.size(), 1u);
}

TEST_F(LeavingTest, AMarkIsTakenOffWhenItsCauseIsGone) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  LosesItsPart();
  desk_.Give(Scale{"job", 1, 2});
  EXPECT_FALSE(desk_.Job().placements.at("worker-1").leaving);
  EXPECT_THAT(desk_.Told(), Contains("worker-1 stays after all"));
  desk_.Record(kA, 5);
  EXPECT_THAT(desk_.Sent<Leave>(), IsEmpty());
  EXPECT_THAT(Placed(), ElementsAre("host/worker-0", "host/worker-1"));
  // It gets lanes again.
  Seal(kA, 6, {0, 1, 2, 3});
  Seal(kB, 6, {});
  Hold({kA, kB});
  EXPECT_THAT(desk_.Job().view->lanes.holder_of, ElementsAre(0, 0, 1, 1));
}

TEST_F(LeavingTest, MarksSurviveARestart) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  LosesItsPart();
  RecoveredState found;
  found.jobs = {desk_.Job()};
  found.recorded["job"] = Step(5);
  Desk again(std::move(found), 2);
  EXPECT_TRUE(again.Job().placements.at("worker-1").leaving);
}

// All hosts stood still when the coordinator was started again. Who is to leave is waited for as
// anybody else is, and nobody else has the state.
TEST_F(LeavingTest, AfterARestartWhoIsSilentWithEverybodyKeepsItsPlace) {
  TrainTwo(1, 2);
  desk_.Give(Drain{"host", true});
  RecoveredState found;
  found.jobs = {desk_.Job()};
  found.recorded["job"] = Step(5);
  found.drained = {"host"};
  Time now = desk_.now();
  Coordinator again("cluster", TermNumber(2), {}, std::move(found), now);
  for (int i = 0; i < 200; ++i) again.Handle(Tick{}, now += std::chrono::milliseconds(100));
  const Placements& places = again.jobs().Find("job")->placements;
  ASSERT_TRUE(places.contains("worker-0") && places.contains("worker-1"));
  for (const MemberId& id : {kA, kB}) {
    Join join{.job = "job", .start = desk_.StartOf(), .placement = places.at(id.name).number};
    join.id = id;
    join.environment = Environment();
    join.term = TermNumber(1);
    join.sealed = join.active = ViewNumber(1);
    again.Handle(MemberSays{id, join}, now);
  }
  again.Handle(Tick{}, now);
  EXPECT_EQ(again.jobs().Status().at(0).members.size(), 2u) << "their state is not lost";
}

// One that dies meanwhile is a loss as any other, and its place is not filled again.
TEST_F(LeavingTest, OneThatDiesWhileItLeavesIsNotReplaced) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  IsKilled(kB);
  desk_.Give(Tick{});
  EXPECT_THAT(Placed(), ElementsAre("host/worker-0"));
  Seal(kA, 5, {0, 1});
  Hold({kA});
  EXPECT_THAT(Members(), ElementsAre("worker-0"));
}

TEST_F(LeavingTest, TheOnlyWorkerStaysUntilAnotherHasTheState) {
  desk_.Give(Submit{"job", SpecOf(1, 1)});
  desk_.Join(kA);
  desk_.Activate({kA});
  for (int64_t step = 0; step < 5; ++step) desk_.Record(kA, step);
  ASSERT_THAT(Placed(), ElementsAre("host/worker-0"));
  desk_.Give(Drain{"host", true});
  EXPECT_THAT(Placed(), ElementsAre("host/worker-0", "other/worker-1"));
  EXPECT_TRUE(desk_.Job().placements.at("worker-0").leaving);
  desk_.Record(kA, 5);
  EXPECT_EQ(Placed().size(), 2u) << "nobody else has the state";
  desk_.Join(kB);
  Seal(kA, 6, {0, 1, 2, 3});
  desk_.Say(kB, Sealed{desk_.Job().number, {}});
  Hold({kA, kB});
  EXPECT_THAT(Members(), ElementsAre("worker-1", "worker-0")) << "the newcomer has rank 0";
  EXPECT_THAT(desk_.Job().view->lanes.holder_of, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(desk_.Job().view->first_lanes.holder_of, ElementsAre(1, 1, 1, 1));
  desk_.Record(kB, 6);
  EXPECT_THAT(Placed(), ElementsAre("other/worker-1"));
  Seal(kB, 7, {0, 1, 2, 3});
  Hold({kB});
  EXPECT_EQ(desk_.Job().rewinds, 0);
}

TEST_F(LeavingTest, DrainedHostsAreJournalledAndTakeNobody) {
  desk_.Give(Drain{"host", true});
  const auto written = desk_.Drain<PersistDrained>();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_THAT(written[0].hosts, ElementsAre("host"));
  desk_.Give(Drain{"host", true});
  EXPECT_THAT(desk_.Drain<PersistDrained>(), IsEmpty()) << "it is so already";
  desk_.Give(Submit{"job", SpecOf(1, 4)});
  EXPECT_THAT(Placed(), ElementsAre("other/worker-0", "other/worker-1"));
  desk_.Give(Drain{"host", false});
  EXPECT_THAT(desk_.Drain<PersistDrained>().at(0).hosts, IsEmpty());
}

TEST_F(LeavingTest, ARestartKnowsTheDrainedHosts) {
  RecoveredState found;
  found.drained = {"host"};
  Desk again(std::move(found), 2);
  again.Give(Submit{"job", SpecOf(1, 4)});
  EXPECT_EQ(again.Job().phase, JobPhase::kQueued);
}

TEST_F(LeavingTest, AJobThatCannotShrinkAsItsHostEndsWaitsInTheQueueAfterACheckpoint) {
  TrainTwo(2, 2);
  desk_.Give(HostEnds{HelloOf("host", 2).agent});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping);
  EXPECT_THAT(desk_.Sent<GiveCommand>(), testing::SizeIs(1));
  desk_.Record(kA, 5, {{1, JobCommandKind::kStop}});
  desk_.Segment(kA, 6, {0, 1}, 1);
  Manifest manifest;
  for (const CommitManifest& commit : desk_.Drain<CommitManifest>()) manifest = commit.manifest;
  ASSERT_EQ(manifest.step, Step(6));
  desk_.Give(ManifestCommitted{manifest});
  desk_.Give(DigestDone{"job", desk_.StartOf(), "d", ""});
  const auto left = desk_.Sent<Leave>();
  ASSERT_EQ(left.size(), 2u);
  for (const auto& [name, leave] : left) EXPECT_EQ(leave.exit_code, kExitLater);
  // There was room for it elsewhere.
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStarting) << desk_.Job().reason;
  EXPECT_TRUE(desk_.Job().resumes);
  EXPECT_FALSE(desk_.Job().ending.gives_way);
  EXPECT_THAT(Placed(), ElementsAre("other/worker-0", "other/worker-1"));
}

TEST_F(LeavingTest, WhoStopsAJobThatGivesWayHasItStopped) {
  TrainTwo(2, 2);
  desk_.Give(HostEnds{HelloOf("host", 2).agent});
  desk_.Give(Stop{"job"});
  EXPECT_FALSE(desk_.Job().ending.gives_way);
  EXPECT_TRUE(desk_.Job().ending.stop_asked);
}

TEST_F(LeavingTest, AHostThatEndsShrinksItsJobsAtOnce) {
  desk_.Give(Submit{"job", SpecOf(1, 3)});
  for (const MemberId& id : {kA, kB, kC}) desk_.Join(id);
  desk_.Activate({kA, kB, kC});
  ASSERT_THAT(Placed(), ElementsAre("host/worker-0", "host/worker-1", "other/worker-2"));
  desk_.Give(HostEnds{HelloOf("other", 2).agent});
  EXPECT_TRUE(desk_.Job().placements.at("worker-2").leaving);
  EXPECT_FALSE(desk_.Job().placements.at("worker-1").leaving);
  // It is the same agent in its next session, before it could say so again.
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  desk_.Give(AgentUp{HelloOf("other", 2)});
  EXPECT_TRUE(desk_.Job().placements.at("worker-2").leaving);
}

TEST_F(LeavingTest, WhoGoesWhileAnotherIsSilentWouldTakeTheStateAlong) {
  TrainTwo(1, 2);
  desk_.Give(Scale{"job", 1, 1});
  LosesItsPart();
  desk_.Wait(std::chrono::milliseconds(800));  // worker-0 has died, perhaps
  desk_.Say(kB, Alive{});
  desk_.Record(kB, 5);
  EXPECT_THAT(desk_.Sent<Leave>(), IsEmpty());
  desk_.Say(kA, Alive{});
  desk_.Give(Tick{});
  EXPECT_EQ(desk_.Sent<Leave>().size(), 1u);
}

TEST_F(LeavingTest, AJobThatGivesWayGoesOnWhateverResumeSaid) {
  JobSpec spec = SpecOf(2, 2);
  spec.runtime.resume.kind = ResumeKind::kNever;
  RunTwo(desk_, spec);
  desk_.Give(HostEnds{HelloOf("host", 2).agent});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kStopping);
  desk_.Record(kA, 0, {{1, JobCommandKind::kStop}});
  desk_.Segment(kA, 1, {0, 1}, 1);
  Manifest manifest;
  for (const CommitManifest& commit : desk_.Drain<CommitManifest>()) manifest = commit.manifest;
  desk_.Give(ManifestCommitted{manifest});
  desk_.Give(DigestDone{"job", desk_.StartOf(), "d", ""});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kStarting);
  EXPECT_EQ(desk_.Job().spec.runtime.resume.kind, ResumeKind::kLatest);
}

// A job keeps no places while it cannot even stop: its server is gone, and there is no room for it.
TEST_F(LeavingTest, AJobThatCannotStopAnyMoreGivesWayAtOnce) {
  ASSERT_NO_FATAL_FAILURE(RunWithTwoServers());
  ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
  desk_.Give(HostEnds{HelloOf("other", 2).agent});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kStopping);
  AgentHello next = HelloOf("other", 1, /*life=*/2);
  next.follows = HelloOf("other", 2).agent.incarnation;
  desk_.Give(AgentUp{next});
  desk_.Give(Tick{});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
}

// Nobody comes back to make the checkpoint of its end: it does not stop for ever.
TEST_F(LeavingTest, AJobThatAPersonStopsEndsWithoutRoomForWhatItLacks) {
  ASSERT_NO_FATAL_FAILURE(RunWithTwoServers());
  desk_.Give(Stop{"job"});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kStopping);
  AgentHello next = HelloOf("other", 1, /*life=*/2);  // its agent starts anew, with less room
  next.follows = HelloOf("other", 2).agent.incarnation;
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  desk_.Give(AgentUp{next});
  const auto live = [&](int seconds) {
    for (int i = 0; i < 2 * seconds && desk_.Job().phase == JobPhase::kStopping; ++i) {
      desk_.Wait(std::chrono::milliseconds(500));
      for (const MemberId& id : {kA, kB, Id("server-0"), Id("server-1")})
        if (desk_.Job().placements.at(id.name).host == "host") desk_.Say(id, Alive{});
      desk_.Give(Tick{});
    }
  };
  live(58);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopping) << "a host may come back";
  live(10);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kStopped);
  EXPECT_EQ(desk_.Job().ending.exit_code, kExitStopped);
  EXPECT_THAT(desk_.Job().reason, HasSubstr("checkpoint of its end"));
}

// Without all its servers it computes nothing, and no worker has what they had.
TEST_F(LeavingTest, WhoIsMarkedGoesWhileTheJobStandsStillForWantOfAServer) {
  JobSpec spec = SpecOf(1, 2);
  spec.training.sync = Sync::kServer;
  spec.runtime.servers = 2;
  desk_.Give(Submit{"job", spec});
  for (const MemberId& id : {kA, kB}) desk_.Join(id);
  for (const MemberId& id : {Id("server-0"), Id("server-1")}) desk_.Join(id, Role::kServer);
  desk_.Activate({kA, kB, Id("server-0"), Id("server-1")});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
  IsKilled(Id("server-1"));
  desk_.Give(MemberDown{Id("server-1")});
  desk_.Drain<Announce>();
  desk_.Give(Scale{"job", 1, 1});
  desk_.Give(Tick{});
  EXPECT_FALSE(desk_.Job().placements.contains("worker-1"));
  EXPECT_TRUE(desk_.Job().placements.contains("worker-0"));
}

TEST_F(LeavingTest, OneUnderANameOfItsOwnIsToldToLeave) {
  Settings settings;
  settings.slots = 2;
  Desk desk({}, /*slots=*/0, settings);
  desk.Give(Submit{"job", SpecOf(1, 2)});
  const MemberId alice = Id("alice"), bob = Id("bob");
  for (const MemberId& id : {alice, bob}) desk.Join(id);
  desk.Activate({alice, bob});
  ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
  for (int64_t step = 0; step < 5; ++step) desk.Record(alice, step);
  desk.Drain<Announce>();
  desk.Give(Scale{"job", 1, 1});
  EXPECT_EQ(desk.Job().placements.size(), 2u) << "one stands for each";
  for (const auto& [id, lanes] :
       std::map<MemberId, std::vector<int32_t>>{{alice, {0, 1}}, {bob, {2, 3}}}) {
    LocalState held{.has_state = true,
                    .lineage = desk.Job().lineages.back().number,
                    .step = Step(5),
                    .results = ChunkSet(2, false),
                    .sums = ChunkSet(2, false)};
    for (const int32_t lane : lanes) held.lanes.emplace_back(lane);
    desk.Say(id, Sealed{desk.Job().number, held});
  }
  for (const MemberId& id : {alice, bob}) desk.Say(id, HoldsBase{desk.Job().number, 0});
  EXPECT_THAT(desk.Sent<Leave>(), IsEmpty()) << "its lanes of step 5 are not in";
  desk.Record(alice, 5);
  const auto left = desk.Sent<Leave>();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].first, "bob");
  EXPECT_EQ(left[0].second.exit_code, kExitLater);
  EXPECT_EQ(desk.Job().placements.size(), 1u);
}

TEST_F(LeavingTest, AJobInTheQueueIsScaledBeforeItStarts) {
  desk_.Give(Submit{"job", SpecOf(9, 9)});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
  desk_.Give(Scale{"job", 1, 2});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kChecking);
  EXPECT_EQ(Placed().size(), 2u);
}

TEST_F(LeavingTest, AJobMakesRoomForOneThatWaits) {
  desk_.Give(Submit{"job", SpecOf(1, 4)});
  ASSERT_EQ(Placed().size(), 4u);
  desk_.Join(kA);
  desk_.Join(kB);
  for (int second = 0; second < 11; ++second) {
    desk_.Wait(std::chrono::seconds(1));
    for (const MemberId& id : {kA, kB}) desk_.Say(id, Alive{});
    desk_.Give(Tick{});
  }
  desk_.Activate({kA, kB});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
  desk_.Give(Submit{"next", SpecOf(2, 2)});
  // Those that have not joined go first, and at once.
  EXPECT_THAT(Placed(), ElementsAre("host/worker-0", "host/worker-1"));
  desk_.Give(Tick{});
  EXPECT_EQ(desk_.Job("next").phase, JobPhase::kChecking);
}

}  // namespace
}  // namespace muster::coordinator
