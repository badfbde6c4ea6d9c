#include "agent/runtime/fault_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr ProcessCounts kProcesses = {.workers = 3, .servers = 1};

TEST(FaultPlanTest, ReadsAPlan) {
  const auto plan = ParseFaultPlan(R"(
seed: 7
faults:
  - {at_step: 40, kill: worker-1}
  - {at_step: 60, kill: coordinator, for_steps: 20}
  - {at_second: 2.5, pause: random worker, for_seconds: 3}
  - {at_second: 9, kill: server-0, for_seconds: 0.5}
  - {at_point: "half_sent:3", kill: worker-2}
  - {job: count-1, at_step: 9, kill: worker-0}
)",
                                   "plan.yaml", kProcesses);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const FaultPlan expected{
      .faults = {{.target = "worker-1", .at_step = 40},
                 {.target = "coordinator", .at_step = 60, .for_steps = 20},
                 {.kind = Fault::Kind::kPause,
                  .target = kRandomWorker,
                  .at_time = milliseconds(2500),
                  .for_time = seconds(3)},
                 {.target = "server-0", .at_time = seconds(9), .for_time = milliseconds(500)},
                 {.target = "worker-2", .at_point = "half_sent:3"},
                 {.target = "worker-0", .job = "count-1", .at_step = 9}},
      .seed = 7};
  EXPECT_EQ(*plan, expected);
}

TEST(FaultPlanTest, ReadsAListAlone) {
  const auto plan = ParseFaultPlan("- {at_step: 1, kill: worker-0}\n", "plan.yaml", kProcesses);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->faults.size(), 1u);
}

TEST(FaultPlanTest, NamesTheFollowerOfAJobThatHasOne) {
  ProcessCounts processes = kProcesses;
  processes.has_follower = true;
  const char plan[] = "- {at_point: \"measuring:2\", kill: follower-0}";
  const auto read = ParseFaultPlan(plan, "plan.yaml", processes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->faults.at(0).target, "follower-0");
  EXPECT_THAT(std::string(ParseFaultPlan(plan, "plan.yaml", kProcesses).status().message()),
              HasSubstr("'follower-0' is not a process of this job"));
  EXPECT_THAT(
      std::string(ParseFaultPlan("- {at_step: 1, kill: follower-1}", "plan.yaml", processes)
                      .status()
                      .message()),
      HasSubstr("it has: worker-0 to worker-2, server-0, follower-0, coordinator, random worker"));
}

TEST(FaultPlanTest, NamesTheReaderOfAJobThatHasOne) {
  ProcessCounts processes = kProcesses;
  processes.has_reader = true;
  const char plan[] = "- {at_step: 2, pause: reader-0, for_seconds: 1}";
  const auto read = ParseFaultPlan(plan, "plan.yaml", processes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->faults.at(0).target, "reader-0");
  EXPECT_THAT(std::string(ParseFaultPlan(plan, "plan.yaml", kProcesses).status().message()),
              HasSubstr("'reader-0' is not a process of this job"));
  EXPECT_THAT(
      std::string(ParseFaultPlan("- {at_step: 1, kill: reader-1}", "plan.yaml", processes)
                      .status()
                      .message()),
      HasSubstr("it has: worker-0 to worker-2, server-0, reader-0, coordinator, random worker"));
}

struct BadPlan {
  std::string yaml;
  std::string says;
};

TEST(FaultPlanTest, SaysWhatIsWrongAndWhere) {
  const BadPlan cases[] = {
      {"- {at_step: 1, kill: wroker-2}",
       "plan.yaml:1: [0].kill: 'wroker-2' is not a process of this job; it has: "
       "worker-0 to worker-2, server-0, coordinator, random worker"},
      {"- {at_step: 1, kill: worker-3}", "[0].kill: 'worker-3' is not a process of this job"},
      {"- {at_step: 1, kill: server-1}", "[0].kill: 'server-1' is not a process of this job"},
      {"- {at_step: 1, kill: worker-}", "is not a process"},
      {"- {at_step: 1, kill: worker-01}", "is not a process"},
      {"- {at_step: 1, kill: coordinator-0}", "is not a process"},
      {"- {at_step: 1}", "exactly one of kill and pause"},
      {"- {at_step: 1, kill: worker-0, pause: worker-0}", "exactly one of kill and pause"},
      {"- {kill: worker-0}", "exactly one of at_step, at_second and at_point"},
      {"- {at_step: 1, at_second: 2, kill: worker-0}",
       "exactly one of at_step, at_second and at_point"},
      {"- {at_step: 1, pause: worker-0}", "a pause needs for_steps or for_seconds"},
      {"- {at_step: 1, kill: worker-0, for_steps: 2, for_seconds: 2}", "not both"},
      {"- {at_step: -1, kill: worker-0}", "at_step"},
      {"- {at_step: 1, kill: worker-0, for_steps: 0}", "for_steps"},
      {"- {at_second: soon, kill: worker-0}", "at_second"},
      {"- {at_step: 1, kil: worker-0}", "kil"},
      {"- 7", "[0]"},
      {"- {at_point: \"nowhere:1\", kill: worker-0}", "half_sent"},
      {"- {at_point: \"forward:1\", at_step: 2, kill: worker-0}",
       "exactly one of at_step, at_second and at_point"},
      {"- {at_point: \"forward:1\", kill: random worker}", "the name of a process"},
      {"- {at_point: \"forward:1\", kill: worker-0, for_steps: 2}", "nothing else"},
      {"- {at_point: \"forward:1\", pause: worker-0, for_steps: 2}", "nothing else"},
      {"faults: 7", "a list of faults is needed"},
      {"seed: 3", "a list of faults is needed"},
      {"fautls: []", "fautls"},
      {"- {", "plan.yaml"},
  };
  for (const BadPlan& bad : cases) {
    const auto plan = ParseFaultPlan(bad.yaml, "plan.yaml", kProcesses);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << bad.yaml;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(bad.says)) << bad.yaml;
  }
}

}  // namespace
}  // namespace muster::agent
