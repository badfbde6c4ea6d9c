// Devices of hosts: whom they are placed with, and when they are free again (docs/hosts.md
// section 11).
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

AgentHello WithDevices(AgentHello hello, std::vector<HostDevice> devices) {
  hello.devices = std::move(devices);
  return hello;
}

JobSpec Needs(JobSpec spec, int32_t devices) {
  spec.runtime.devices = devices;
  return spec;
}

// Beside the host of the desk, which has none, one with two.
class DevicesTest : public testing::Test {
 protected:
  DevicesTest() { desk_.Give(AgentUp{WithDevices(hello_, {{"0"}, {"1"}})}); }

  std::vector<std::string> Of(const std::string& job, const std::string& name = "worker-0") {
    return desk_.Job(job).placements.at(name).devices;
  }
  PlacementNumber NumberOf(const std::string& job) {
    return desk_.Job(job).placements.at("worker-0").number;
  }
  void Held(std::vector<HostDevice> devices) {
    desk_.Give(DevicesTold{hello_.agent, std::move(devices)});
  }

  const AgentHello hello_ = HelloOf("gpus", 4);
  Desk desk_{{}, /*slots=*/2};
};

TEST_F(DevicesTest, AreToldWithTheirPlaceAndStayWithIt) {
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 2)});
  EXPECT_THAT(Of("job"), ElementsAre("0", "1"));
  std::vector<std::string> told;
  for (const ToHost& to : desk_.Drain<ToHost>())
    for (const JobProcesses& job : to.wanted.jobs)
      for (const ProcessWanted& process : job.processes) told = process.devices;
  EXPECT_THAT(told, ElementsAre("0", "1"));
  desk_.Give(Submit{"next", Needs(SpecOf(1, 1), 1)});
  EXPECT_EQ(desk_.Status("next").waits_for,
            "needs 1 worker with 1 device each; enough are free for 0 of 2");
}

TEST_F(DevicesTest, AreFreeWhenTheProcessThatHasThemHasEnded) {
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 2)});
  const PlacementNumber number = NumberOf("job");
  Held({{"0", number}, {"1", number}});
  desk_.Give(Submit{"next", Needs(SpecOf(1, 1), 1)});
  desk_.Give(Cancel{"job"});
  EXPECT_EQ(desk_.Job("next").phase, JobPhase::kQueued) << "its process ends";
  Held({{"0", number}, {"1"}});
  EXPECT_THAT(Of("next"), ElementsAre("1"));
}

// No exit is told of a process that never started, or had ended before its place was taken back.
TEST_F(DevicesTest, AreFreeAtOnceWhereNoProcessHasThem) {
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 2)});
  desk_.Give(Cancel{"job"});
  desk_.Give(Submit{"next", Needs(SpecOf(1, 1), 2)});
  EXPECT_THAT(Of("next"), ElementsAre("0", "1"));
}

TEST_F(DevicesTest, AnAgentThatComesBackSaysWhichAreHeld) {
  desk_.Give(AgentDown{hello_.agent});
  desk_.Give(AgentUp{WithDevices(hello_, {{"0", PlacementNumber(99)}, {"1"}})});
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 1)});
  EXPECT_THAT(Of("job"), ElementsAre("1"));
  // Another one begins afresh.
  AgentHello next = WithDevices(HelloOf("gpus", 4, /*life=*/2), {{"0"}, {"1"}});
  next.follows = hello_.agent.incarnation;
  desk_.Give(AgentUp{next});
  desk_.Give(Submit{"more", Needs(SpecOf(1, 1), 1)});
  EXPECT_THAT(Of("job"), ElementsAre("0")) << "placed anew";
  EXPECT_THAT(Of("more"), ElementsAre("1"));
}

TEST_F(DevicesTest, MoreThanAnyHostHasHoldNobodyUp) {
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 3)});
  EXPECT_THAT(
      desk_.Told(),
      Contains(HasSubstr("waits: needs 3 devices for each worker; no host has more than 2")));
  desk_.Give(Submit{"next", Needs(SpecOf(1, 1), 2)});
  EXPECT_EQ(desk_.Job("next").phase, JobPhase::kChecking);
}

// A restart of the coordinator knows them by the journal before the agent has come back.
TEST_F(DevicesTest, AreInTheJournal) {
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 1)});
  RecoveredState found;
  found.jobs.push_back(desk_.Job("job"));
  Desk later(std::move(found), /*slots=*/2);
  later.Give(AgentUp{WithDevices(hello_, {{"0", NumberOf("job")}, {"1"}})});
  later.Give(Submit{"next", Needs(SpecOf(1, 2), 1)});
  EXPECT_THAT(later.Job("job").placements.at("worker-0").devices, ElementsAre("0"));
  EXPECT_THAT(later.Job("next").placements.at("worker-0").devices, ElementsAre("1"));
  EXPECT_EQ(later.Job("next").placements.size(), 1u);
}

TEST_F(DevicesTest, AHostIsNotLeftOutWhereTheOthersHaveNone) {
  desk_.Give(Submit{"job", Needs(SpecOf(1, 1), 1)});
  ProcessExited gave_up;
  gave_up.job = "job";
  gave_up.start = desk_.StartOf();
  gave_up.name = "worker-0";
  gave_up.exit_code = 1;
  gave_up.gave_up = true;
  desk_.Give(AgentSays{gave_up});
  EXPECT_EQ(desk_.Job().phase, JobPhase::kFailed);
}

}  // namespace
}  // namespace muster::coordinator
