// Jobs on several hosts: who is placed where, hosts that are lost and come back, and whose word
// counts (docs/hosts.md).
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "host/worker-0", of those that have a place.
std::vector<std::string> PlacesIn(const JobJournal& job) {
  std::vector<std::string> places;
  for (const auto& [name, placement] : job.placements)
    if (placement.host) places.push_back(*placement.host + "/" + name);
  return places;
}

// What each host was told last, "worker-0 worker-1".
std::map<std::string, std::string> Told(Desk& desk) {
  std::map<std::string, std::string> told;
  for (const ToHost& to : desk.Drain<ToHost>()) {
    std::string& names = told[to.agent.host];
    names.clear();
    for (const JobProcesses& job : to.wanted.jobs)
      for (const ProcessWanted& process : job.processes)
        names += (names.empty() ? "" : " ") + process.name;
  }
  return told;
}

// Two hosts of two slots, and a job of two to three workers.
class HostsTest : public testing::Test {
 protected:
  HostsTest() {
    desk_.Give(AgentUp{HelloOf("other", 2)});
    desk_.Give(Submit{"job", SpecOf(2, 3)});
  }
  PlacementNumber NumberOf(const std::string& name) {
    return desk_.Job().placements.at(name).number;
  }
  ProcessExited ExitOf(const std::string& name, int code) const {
    ProcessExited exited;
    exited.job = "job";
    exited.start = desk_.StartOf();
    exited.name = name;
    exited.exit_code = code;
    exited.cause = "exit code " + std::to_string(code);
    return exited;
  }
  ProcessExited GaveUp(const std::string& name, int code = kExitFailed) const {
    ProcessExited exited = ExitOf(name, code);
    exited.gave_up = true;
    return exited;
  }
  void Train() {
    for (const MemberId& id : {kA, kB, kC}) desk_.Join(id);
    desk_.Activate({kA, kB, kC});
    ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
    desk_.Drain<Announce>();
  }
  // Of all but `silent`, so that nobody else is lost; `ticks` of a second.
  void Live(int ticks, const std::vector<MemberId>& alive) {
    for (int i = 0; i < ticks; ++i) {
      desk_.Wait(seconds(1));
      for (const MemberId& id : alive) desk_.Say(id, Alive{Step(0), ""});
      desk_.Give(Tick{});
    }
  }

  // "other" fails a member of the job, which then runs without it, and then one of "next".
  void OtherFailsTwoJobs(int code = kExitFailed) {
    desk_.Give(AgentUp{HelloOf("third", 4)});
    Train();
    desk_.Give(AgentSays{GaveUp("worker-2", code)});
    desk_.Activate({kA, kB});
    ASSERT_EQ(desk_.Job().phase, JobPhase::kRunning);
    desk_.Give(Submit{"next", SpecOf(4, 4)});
    desk_.Give(Submit{"small", SpecOf(1, 1)});
    ASSERT_THAT(PlacesIn(desk_.Job("next")), Contains("other/worker-3"));
    desk_.Give(AgentUp{HelloOf("fourth", 8)});
    ProcessExited exited = GaveUp("worker-3", code);
    exited.job = "next";
    exited.start = desk_.StartOf("next");
    desk_.Give(AgentSays{exited});
  }
  void NextRuns() {
    std::vector<MemberId> members;
    for (const char* name : {"worker-0", "worker-1", "worker-2", "worker-3"})
      members.push_back(Id(name, 7));
    for (const MemberId& id : members) desk_.Join(id, "next");
    desk_.Activate(members, "next");
    ASSERT_EQ(desk_.Job("next").phase, JobPhase::kRunning);
  }

  Desk desk_{{}, /*slots=*/2};
};

TEST_F(HostsTest, EachHostIsToldOfItsOwn) {
  EXPECT_THAT(PlacesIn(desk_.Job()),
              ElementsAre("host/worker-0", "host/worker-1", "other/worker-2"));
  const auto told = Told(desk_);
  EXPECT_EQ(told.at("host"), "worker-0 worker-1");
  EXPECT_EQ(told.at("other"), "worker-2");
}

TEST_F(HostsTest, WhatDoesNotChangeIsNotToldAgain) {
  Told(desk_);
  desk_.Give(Submit{"next", SpecOf(1, 1)});
  EXPECT_THAT(Told(desk_), ElementsAre(testing::Pair("other", "worker-2 worker-0")));
}

TEST_F(HostsTest, AMemberOfAnotherPlaceIsTurnedAwayForGood) {
  muster::Join join;
  join.job = "job";
  join.start = desk_.StartOf();
  join.placement = NumberOf("worker-0") + 1000;
  join.id = kA;
  join.environment = Environment();
  desk_.Drain<Announce>();
  desk_.Say(kA, join);
  const auto leave = desk_.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.exit_code, kExitReplaced);
  EXPECT_THAT(leave[0].second.reason, HasSubstr("another placement"));
  EXPECT_THAT(desk_.Status().members, IsEmpty());
  EXPECT_FALSE(desk_.Job().environment) << "nothing is learnt of it";
}

// Found by the simulator: a coordinator that is gone, whose journal was newer than this one, had
// given the member another place. Its agent starts it in this one no more.
TEST_F(HostsTest, AMemberThatWasReplacedInThePlaceThatItHasGetsAnother) {
  Train();
  const PlacementNumber before = NumberOf("worker-2");
  ProcessExited exited;
  exited.job = "job";
  exited.start = desk_.StartOf();
  exited.name = "worker-2";
  exited.placement = before;
  exited.exit_code = kExitReplaced;
  exited.lanes.incarnation = {100, 100};
  desk_.Give(AgentSays{exited});
  EXPECT_EQ(NumberOf("worker-2"), before) << "another lives there";
  exited.lanes.incarnation = kC.incarnation;
  desk_.Give(AgentSays{exited});
  EXPECT_NE(NumberOf("worker-2"), before);
  EXPECT_THAT(desk_.Told(), Contains(HasSubstr("worker-2 gets another place")));
}

TEST_F(HostsTest, AHostWhoseAgentIsAwayKeepsItsMembers) {
  Train();
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  Live(60, {kA, kB, kC});
  EXPECT_EQ(PlacesIn(desk_.Job()).size(), 3u);
  EXPECT_EQ(desk_.Status().members.size(), 3u);
}

// It hears no other machine at all: then it is more likely that it is cut off itself.
TEST_F(HostsTest, ACoordinatorThatIsCutOffGivesUpNoState) {
  Train();
  desk_.Give(AgentDown{HelloOf("host", 2).agent});
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  Live(40, {});
  EXPECT_EQ(desk_.Status().members.size(), 3u);
  desk_.Say(kB, Alive{});  // one is heard first
  desk_.Give(Tick{});
  desk_.Wait(std::chrono::milliseconds(500));
  for (const MemberId& id : {kA, kC}) desk_.Say(id, Alive{});
  desk_.Give(Tick{});
  Live(3, {kA, kB, kC});
  EXPECT_EQ(desk_.Status().members.size(), 3u);
  EXPECT_EQ(PlacesIn(desk_.Job()).size(), 3u);
  EXPECT_EQ(desk_.Job().views, 1);
  // It does not wait for ever.
  Live(70, {});
  EXPECT_THAT(desk_.Status().members, IsEmpty());
}

TEST_F(HostsTest, WhileAnotherMachineIsHeardASilentOneIsNotWaitedForAnyLonger) {
  desk_.Give(AgentUp{HelloOf("third", 2)});
  Train();
  desk_.Give(AgentDown{HelloOf("host", 2).agent});
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  Live(17, {});
  EXPECT_THAT(desk_.Status().members, IsEmpty());
}

// All fall silent at once, but the last words of one are older.
TEST_F(HostsTest, OfThoseThatFallSilentTogetherTheFirstIsNotGivenUp) {
  Train();
  Live(1, {kA, kB, kC});
  desk_.Wait(std::chrono::milliseconds(500));
  for (const MemberId& id : {kB, kC}) desk_.Say(id, Alive{});
  for (int i = 0; i < 80; ++i) {
    desk_.Wait(std::chrono::milliseconds(100));
    desk_.Give(Tick{});
  }
  EXPECT_EQ(desk_.Status().members.size(), 3u);
  desk_.Say(kC, Alive{});
  desk_.Give(Tick{});
  EXPECT_EQ(desk_.Status().members.size(), 3u) << "the others may be back at any moment";
  Live(2, {kC});
  EXPECT_EQ(desk_.Status().members.size(), 1u);
}

TEST_F(HostsTest, AHostThatIsSilentIsLostAndItsMembersArePlacedAnew) {
  Train();
  const PlacementNumber before = NumberOf("worker-2");
  desk_.Give(AgentUp{HelloOf("third", 1)});
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  desk_.Give(MemberDown{kC});
  Live(10, {kA, kB});
  EXPECT_EQ(NumberOf("worker-2"), before) << "it may come back";
  EXPECT_EQ(desk_.Status().members.size(), 2u);
  Told(desk_);
  Live(20, {kA, kB});  // of a second between two ticks not all counts
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains("third/worker-2"));
  EXPECT_NE(NumberOf("worker-2"), before);
  // It comes back, and is told to let go; who ran there is turned away.
  desk_.Give(AgentUp{HelloOf("other", 2)});
  EXPECT_EQ(Told(desk_).at("other"), "");
  muster::Join join;
  join.job = "job";
  join.start = desk_.StartOf();
  join.placement = before;
  join.id = Id("worker-2", 2);
  join.environment = Environment();
  desk_.Say(join.id, join);
  EXPECT_EQ(desk_.Sent<Leave>().at(0).second.exit_code, kExitReplaced);
}

TEST_F(HostsTest, WithoutRoomALostMemberWaitsAndTheJobGoesOn) {
  Train();
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  desk_.Give(MemberDown{kC});
  Live(30, {kA, kB});
  EXPECT_THAT(PlacesIn(desk_.Job()), ElementsAre("host/worker-0", "host/worker-1"));
  EXPECT_NE(desk_.Job().phase, JobPhase::kFailed);
  desk_.Give(AgentUp{HelloOf("other", 2, 2)});
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains("other/worker-2")) << "the host is back";
}

TEST_F(HostsTest, AnAgentThatFollowsTheOneBeforeItTakesOverAtOnce) {
  Train();
  const PlacementNumber before = NumberOf("worker-2");
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  AgentHello next = HelloOf("other", 2, 2);
  next.follows = HelloOf("other", 2).agent.incarnation;
  desk_.Drain<Announce>();
  desk_.Give(AgentUp{next});
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains("other/worker-2"));
  EXPECT_NE(NumberOf("worker-2"), before) << "the number is of the agent that was told of it";
  EXPECT_EQ(desk_.Status().members.size(), 2u) << "its processes have ended with it";
}

TEST_F(HostsTest, AnotherAgentOfThatNameIsTurnedAwayWhileMembersLive) {
  Train();
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  Live(5, {kA, kB, kC});
  desk_.Drain<Announce>();
  desk_.Give(AgentUp{HelloOf("other", 2, 2)});
  ASSERT_EQ(desk_.Drain<EndAgentSession>().size(), 1u);
  desk_.Give(AgentUp{HelloOf("other", 2)});
  EXPECT_EQ(Told(desk_).at("other"), "worker-2") << "the one before is back";
}

TEST_F(HostsTest, TheExitOfAnotherPlaceEndsNothing) {
  Train();
  ProcessExited exited = ExitOf("worker-2", kExitBadData);
  exited.placement = NumberOf("worker-2") + 1000;
  desk_.Give(AgentSays{exited});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kRunning);
  EXPECT_THAT(desk_.Job().left_out, IsEmpty());
}

TEST_F(HostsTest, AHostThatCannotRunAJobIsLeftOutForIt) {
  desk_.Give(AgentUp{HelloOf("third", 4)});
  Train();
  desk_.Give(AgentSays{ExitOf("worker-2", kExitBadData)});
  EXPECT_THAT(desk_.Job().left_out, ElementsAre("other"));
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains("third/worker-2"));
  EXPECT_NE(desk_.Job().phase, JobPhase::kFailed);
  // A bad specification is no host's fault.
  desk_.Give(AgentSays{ExitOf("worker-0", kExitBadConfiguration)});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kFailed);
}

TEST_F(HostsTest, WhereTheOtherHostsAreTooSmallTheJobFails) {
  Train();
  desk_.Give(AgentSays{GaveUp("worker-2")});
  EXPECT_THAT(desk_.Job().left_out, ElementsAre("other")) << "two slots are enough";
  desk_.Give(AgentSays{GaveUp("worker-0")});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kFailed);
}

TEST_F(HostsTest, ARestartOfTheCoordinatorKeepsPlacesAndWaitsForTheirHosts) {
  Train();
  Desk after(RecoveredState{.jobs = {desk_.Job()}}, /*slots=*/2);
  EXPECT_EQ(after.Job().placements, desk_.Job().placements);
  EXPECT_EQ(PlacesIn(after.Job()).size(), 3u);
  after.Give(AgentUp{HelloOf("other", 2)});
  EXPECT_EQ(Told(after).at("other"), "worker-2");
}

// Both of its members meet the same thing there.
TEST_F(HostsTest, AHostThatFailsTwoMembersIsOneHost) {
  desk_.Give(AgentUp{HelloOf("third", 4)});
  desk_.Give(AgentUp{HelloOf("fourth", 4)});
  Train();
  for (const char* name : {"worker-2", "worker-0", "worker-1"}) {
    desk_.Give(AgentSays{ExitOf(name, kExitOtherEnvironment)});
    EXPECT_NE(desk_.Job().phase, JobPhase::kFailed) << name;
  }
  EXPECT_THAT(desk_.Job().left_out, ElementsAre("host", "other"));
}

// Its session may break later.
TEST_F(HostsTest, WhoEndedOnAHostThatIsLeftOutTakesNoPartAnyMore) {
  desk_.Give(AgentUp{HelloOf("third", 4)});
  Train();
  desk_.Give(AgentSays{GaveUp("worker-2")});
  EXPECT_EQ(desk_.Status().members.size(), 2u);
}

TEST_F(HostsTest, AHostThatFailsSeveralJobsIsLeftOutForAllUntilAPersonLetsItBack) {
  OtherFailsTwoJobs();
  EXPECT_THAT(desk_.Drain<PersistLeftOut>(), IsEmpty()) << "it may be the jobs";
  NextRuns();
  const auto written = desk_.Drain<PersistLeftOut>();
  ASSERT_EQ(written.size(), 1u);
  ASSERT_EQ(written[0].hosts.size(), 1u);
  EXPECT_THAT(written[0].hosts.at("other"), HasSubstr("members of jobs job and next"));
  desk_.Give(Submit{"later", SpecOf(1, 9)});
  EXPECT_THAT(PlacesIn(desk_.Job("later")), testing::Not(Contains(HasSubstr("other/"))));
  // Who runs there stays.
  EXPECT_THAT(PlacesIn(desk_.Job("small")), ElementsAre("other/worker-0"));
  // A restart knows it.
  RecoveredState found;
  found.left_out = written[0].hosts;
  Desk again(std::move(found), /*slots=*/2);
  again.Give(AgentUp{HelloOf("other", 2)});
  again.Give(Submit{"job", SpecOf(1, 4)});
  EXPECT_THAT(PlacesIn(again.Job()), ElementsAre("host/worker-0", "host/worker-1"));
  again.Give(Drain{"other", false});
  EXPECT_THAT(again.Drain<PersistLeftOut>().at(0).hosts, IsEmpty());
  again.Give(Submit{"free", SpecOf(2, 2)});
  EXPECT_THAT(PlacesIn(again.Job("free")), ElementsAre("other/worker-0", "other/worker-1"));
}

TEST_F(HostsTest, AHostWithoutThePluginIsLeftOutForThatStartOfTheJob) {
  desk_.Give(AgentUp{HelloOf("third", 4)});
  Train();
  desk_.Give(AgentSays{GaveUp("worker-2", kExitNoPlugin)});
  EXPECT_THAT(desk_.Job().left_out, ElementsAre("other"));
  EXPECT_THAT(desk_.Job().without_plugin, ElementsAre("other"));
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains("third/worker-2"));
  EXPECT_THAT(desk_.Drain<Announce>(),
              Contains(testing::Field(&Announce::text,
                                      "host other is left out for this job: worker-2 ended with "
                                      "exit code 72")));
  // The next start knows nothing of that: somebody may have put it there.
  desk_.Give(AgentSays{ExitOf("worker-0", kExitBadConfiguration)});
  ASSERT_EQ(desk_.Job().phase, JobPhase::kFailed);
  desk_.Give(Submit{"job", SpecOf(2, 8)});
  EXPECT_THAT(desk_.Job().left_out, IsEmpty());
  EXPECT_THAT(desk_.Job().without_plugin, IsEmpty());
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains(HasSubstr("other/")));
}

// However many hosts lack it: they are no sign that it is the job.
TEST(HostsWithoutAPlugin, AreLeftOutUntilNoneIsLeftAndTheJobEndsWithWhatToDo) {
  Desk desk({}, /*slots=*/1);
  for (const char* host : {"a", "b", "c", "d"}) desk.Give(AgentUp{HelloOf(host, 1)});
  desk.Give(Submit{"job", SpecOf(1, 1)});
  std::set<std::string> tried;
  for (int i = 0; i < 5; ++i) {
    ASSERT_NE(desk.Job().phase, JobPhase::kFailed) << desk.Job().reason;
    tried.insert(desk.Job().placements.at("worker-0").host.value());
    ASSERT_EQ(tried.size(), static_cast<size_t>(i) + 1) << "each host once";
    desk.Give(AgentSays{{.job = "job",
                         .start = desk.StartOf(),
                         .name = "worker-0",
                         .exit_code = kExitNoPlugin,
                         .cause = "exit code 72 (its host lacks the plug-in): task: 'mlp' is "
                                  "unknown",
                         .gave_up = true}});
  }
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitBadConfiguration);
  EXPECT_EQ(desk.Job().reason,
            "what task counting needs of a folder of plug-ins is missing on a, b, c, d, host, and "
            "too few hosts are left: put it into a folder there, and name that where Muster is "
            "started (--plugins FOLDER); worker-0 ended with exit code 72 (its host lacks the "
            "plug-in): task: 'mlp' is unknown");
}

TEST(HostsWithoutAPlugin, AreNotAmongThreeThatFailAlike) {
  Desk desk({}, /*slots=*/1);
  for (const char* host : {"a", "b", "c", "d", "e", "f"}) desk.Give(AgentUp{HelloOf(host, 1)});
  desk.Give(Submit{"job", SpecOf(1, 1)});
  const auto ends = [&](int code) {
    desk.Give(AgentSays{{.job = "job",
                         .start = desk.StartOf(),
                         .name = "worker-0",
                         .exit_code = code,
                         .cause = "exit code",
                         .gave_up = code == kExitNoPlugin}});
  };
  for (const int code : {kExitNoPlugin, kExitBadData, kExitNoPlugin, kExitBadData}) {
    ends(code);
    ASSERT_NE(desk.Job().phase, JobPhase::kFailed) << code << ": " << desk.Job().reason;
  }
  EXPECT_EQ(desk.Job().left_out.size(), 4u);
  EXPECT_EQ(desk.Job().without_plugin.size(), 2u);
  ends(kExitBadData);
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed) << "the third";
  EXPECT_EQ(desk.Job().ending.exit_code, kExitBadData);
}

// Jobs of other tasks run there.
TEST_F(HostsTest, AHostThatLacksPluginsOfSeveralJobsIsTakenByOthers) {
  OtherFailsTwoJobs(kExitNoPlugin);
  NextRuns();
  EXPECT_THAT(desk_.Drain<PersistLeftOut>(), IsEmpty());
  desk_.Give(Submit{"later", SpecOf(1, 20)});
  EXPECT_THAT(PlacesIn(desk_.Job("later")), Contains(HasSubstr("other/")));
}

TEST_F(HostsTest, WhyAHostIsLeftOutNamesToEachJobItselfOnly) {
  OtherFailsTwoJobs();
  desk_.Drain<Announce>();
  NextRuns();
  std::map<std::string, std::string> told;
  for (const Announce& event : desk_.Drain<Announce>())
    if (event.text.find("left out for all jobs") != std::string::npos)
      told[event.job] += event.text;
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told.at("job"), HasSubstr("members of job job and of others could not run there"));
  EXPECT_THAT(told.at("next"), HasSubstr("members of job next and of others could not run there"));
}

// How many slots another host has is not known before it is back.
TEST_F(HostsTest, AfterARestartNobodyIsJudgedByHostsThatAreNotBack) {
  Train();
  Desk after(RecoveredState{.jobs = {desk_.Job()}}, /*slots=*/2);
  ASSERT_EQ(after.StartOf(), desk_.StartOf());
  after.Give(AgentSays{ExitOf("worker-0", kExitBadData)});
  EXPECT_NE(after.Job().phase, JobPhase::kFailed);
  EXPECT_THAT(after.Job().left_out, ElementsAre("host"));
}

TEST_F(HostsTest, AMachineThatHasAnotherNameNowIsNotWaitedFor) {
  Train();
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  AgentHello renamed = HelloOf("renamed", 2, 2);
  renamed.follows = HelloOf("other", 2).agent.incarnation;
  desk_.Give(AgentUp{renamed});
  EXPECT_THAT(PlacesIn(desk_.Job()), Contains("renamed/worker-2"));
}

}  // namespace
}  // namespace muster::coordinator
