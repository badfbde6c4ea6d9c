#include "agent/state/faults.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ProcessKey kWorker0{"j", "worker-0"};
const ProcessKey kWorker1{"j", "worker-1"};
const ProcessKey kServer0{"j", "server-0"};
const std::vector<ProcessKey> kAll = {kCoordinatorKey, kServer0, kWorker0, kWorker1};
constexpr Time kBegan = Time{} + seconds(1000);

// The job has completed this step.
std::map<std::string, int64_t> At(int64_t step) { return {{"j", step}}; }

std::vector<std::string> Describe(const std::vector<FaultAction>& actions) {
  static const char* const kNames[] = {"keep down", "kill", "release", "pause", "continue"};
  std::vector<std::string> texts;
  for (const FaultAction& action : actions)
    texts.push_back(absl::StrCat(kNames[static_cast<int>(action.what)], " ", action.key.name));
  return texts;
}

TEST(FaultDriverTest, KillsOnceAtTheStep) {
  FaultDriver driver({.faults = {{.target = "worker-1", .at_step = 40}}}, kBegan);
  EXPECT_THAT(driver.Step({}, kAll, kBegan), IsEmpty());
  EXPECT_THAT(driver.Step(At(39), kAll, kBegan), IsEmpty());
  const auto actions = driver.Step(At(41), kAll, kBegan);
  EXPECT_THAT(Describe(actions), ElementsAre("kill worker-1"));
  EXPECT_EQ(actions[0].text, "fault plan: kills worker-1 (SIGKILL)");
  EXPECT_THAT(driver.Step(At(40), kAll, kBegan), IsEmpty());
}

TEST(FaultDriverTest, KeepsDownForSteps) {
  FaultDriver driver({.faults = {{.target = "coordinator", .at_step = 60, .for_steps = 20}}},
                     kBegan);
  const auto actions = driver.Step(At(60), kAll, kBegan);
  EXPECT_THAT(Describe(actions), ElementsAre("keep down coordinator", "kill coordinator"));
  EXPECT_EQ(actions[1].text,
            "fault plan: kills coordinator (SIGKILL) and keeps it down for 20 steps");
  EXPECT_THAT(driver.Step(At(79), {kWorker0}, kBegan), IsEmpty());
  EXPECT_THAT(Describe(driver.Step(At(80), {kWorker0}, kBegan)),
              ElementsAre("release coordinator"));
}

TEST(FaultDriverTest, NothingLastsBeyondTheLastStep) {
  FaultDriver driver({.faults = {{.target = "coordinator", .at_step = 60, .for_steps = 20}}},
                     kBegan);
  driver.JobEndsAfter("j", 70);
  driver.Step(At(60), kAll, kBegan);
  EXPECT_THAT(driver.Step(At(69), {kWorker0}, kBegan), IsEmpty());
  EXPECT_THAT(Describe(driver.Step(At(70), {kWorker0}, kBegan)),
              ElementsAre("release coordinator"));
}

TEST(FaultDriverTest, NothingIsKeptDownThatAllStepsWaitFor) {
  FaultDriver driver({.faults = {{.target = "worker-0", .at_step = 6, .for_steps = 5}}}, kBegan);
  EXPECT_EQ(driver.NextTick(), std::nullopt);
  driver.Step(At(6), {kWorker0}, kBegan + seconds(100));
  EXPECT_EQ(driver.NextTick(), kBegan + seconds(100) + kNoStepPatience);
  EXPECT_THAT(driver.Step(At(7), {}, kBegan + seconds(103)), IsEmpty());  // one that was under way
  EXPECT_THAT(driver.Step(At(7), {}, kBegan + seconds(162)), IsEmpty());
  const auto actions = driver.Step(At(7), {}, kBegan + seconds(163));
  EXPECT_THAT(Describe(actions), ElementsAre("release worker-0"));
  EXPECT_EQ(actions[0].text,
            "fault plan: worker-0 may come back, for without it no step is completed");
  EXPECT_EQ(driver.NextTick(), std::nullopt);
}

TEST(FaultDriverTest, StepsThatTakeLongAreWaitedForLonger) {
  FaultDriver driver({.faults = {{.target = "worker-0", .at_step = 6, .for_steps = 5}}}, kBegan);
  driver.Step(At(5), kAll, kBegan + seconds(100));
  driver.Step(At(6), kAll, kBegan + seconds(150));
  EXPECT_EQ(driver.NextTick(), kBegan + seconds(150) + seconds(500));
}

TEST(FaultDriverTest, PausesForSecondsByTheClock) {
  FaultDriver driver({.faults = {{.kind = Fault::Kind::kPause,
                                  .target = "server-0",
                                  .at_time = seconds(12),
                                  .for_time = seconds(3)}}},
                     kBegan);
  EXPECT_EQ(driver.NextTick(), kBegan + seconds(12));
  EXPECT_THAT(driver.Step(At(5), kAll, kBegan + seconds(11)), IsEmpty());
  EXPECT_THAT(Describe(driver.Step(At(5), kAll, kBegan + seconds(12))),
              ElementsAre("pause server-0"));
  EXPECT_EQ(driver.NextTick(), kBegan + seconds(15));
  EXPECT_THAT(Describe(driver.Step(At(5), kAll, kBegan + seconds(15))),
              ElementsAre("continue server-0"));
  EXPECT_EQ(driver.NextTick(), std::nullopt);
}

TEST(FaultDriverTest, WaitsForATargetThatDoesNotRun) {
  FaultDriver driver({.faults = {{.target = "worker-1", .at_time = seconds(1)}}}, kBegan);
  EXPECT_THAT(driver.Step(At(0), {kWorker0}, kBegan + seconds(2)), IsEmpty());
  EXPECT_EQ(driver.NextTick(),
            std::nullopt);  // no busy loop: the next start of a process asks again
  EXPECT_THAT(Describe(driver.Step(At(0), kAll, kBegan + seconds(3))),
              ElementsAre("kill worker-1"));
}

TEST(FaultDriverTest, ArmsOneStartOfAProcessForEachPoint) {
  FaultDriver driver({.faults = {{.target = "worker-1", .at_point = "forward:3"},
                                 {.target = "worker-0", .at_point = "donor:1"},
                                 {.target = "worker-1", .at_point = "receiver:1"}}},
                     kBegan);
  EXPECT_THAT(driver.Step(At(100), kAll, kBegan + seconds(100)), IsEmpty());
  EXPECT_EQ(driver.Arm(kServer0), std::nullopt);
  EXPECT_EQ(driver.Arm(kWorker1), "forward:3");
  EXPECT_EQ(driver.Arm(kWorker1), "receiver:1");
  EXPECT_EQ(driver.Arm(kWorker0), "donor:1");
  EXPECT_EQ(driver.Arm(kWorker1), std::nullopt);
}

TEST(FaultDriverTest, SaysWhatHasNotHappened) {
  FaultDriver driver(
      {.faults =
           {{.target = "worker-1", .at_step = 40},
            {.target = kRandomWorker, .at_time = milliseconds(2500)},
            {.kind = Fault::Kind::kPause, .target = "server-0", .at_step = 7, .for_steps = 3}}},
      kBegan);
  EXPECT_THAT(driver.Missed(),
              ElementsAre("kill worker-1 at step 40", "kill random worker after 2.5 s",
                          "pause server-0 at step 7"));
  driver.Step(At(8), kAll, kBegan + seconds(3));
  EXPECT_THAT(driver.Missed(), ElementsAre("kill worker-1 at step 40"));
  driver.Step(At(40), kAll, kBegan + seconds(3));
  EXPECT_THAT(driver.Missed(), IsEmpty());
}

TEST(FaultDriverTest, AnArmedPointHasHappenedOnceItIsPassed) {
  FaultDriver driver({.faults = {{.target = "worker-0", .at_point = "forward:3"},
                                 {.target = "worker-1", .at_point = "forward:4"}}},
                     kBegan);
  driver.Arm(kWorker0);
  driver.Arm(kWorker1);
  EXPECT_THAT(driver.Missed(),
              ElementsAre("kill worker-0 at forward:3", "kill worker-1 at forward:4"));
  driver.Passed(kWorker1, "forward");
  driver.Passed(kWorker0, "for");
  EXPECT_THAT(driver.Missed(), ElementsAre("kill worker-0 at forward:3"));
}

TEST(FaultDriverTest, AFaultOfAJobGoesByItsStepsAndHitsItsProcess) {
  const ProcessKey other{"k", "worker-1"};
  const std::vector<ProcessKey> both = {kCoordinatorKey, kWorker0, kWorker1, other};
  FaultDriver driver(
      {.faults = {{.target = "worker-1", .job = "k", .at_step = 5},
                  {.target = "coordinator", .job = "k", .at_step = 7, .for_steps = 2}}},
      kBegan);
  EXPECT_THAT(driver.Step({{"j", 50}, {"k", 4}}, both, kBegan), IsEmpty());
  const auto kill = driver.Step({{"j", 51}, {"k", 5}}, both, kBegan);
  ASSERT_EQ(kill.size(), 1u);
  EXPECT_EQ(kill[0].key, other);
  EXPECT_EQ(kill[0].text, "fault plan: kills worker-1 of k (SIGKILL)");
  EXPECT_THAT(Describe(driver.Step({{"j", 60}, {"k", 7}}, both, kBegan)),
              ElementsAre("keep down coordinator", "kill coordinator"));
  EXPECT_THAT(driver.Step({{"j", 90}, {"k", 8}}, both, kBegan), IsEmpty());
  EXPECT_THAT(Describe(driver.Step({{"j", 91}, {"k", 9}}, both, kBegan)),
              ElementsAre("release coordinator"));
}

TEST(FaultDriverTest, APointOfAJobArmsItsProcessOnly) {
  FaultDriver driver({.faults = {{.target = "worker-0", .job = "k", .at_point = "forward:3"}}},
                     kBegan);
  EXPECT_EQ(driver.Arm(kWorker0), std::nullopt);
  EXPECT_EQ(driver.Arm({"k", "worker-0"}), "forward:3");
}

TEST(FaultDriverTest, RandomWorkerFollowsFromTheSeed) {
  bool seen[2] = {false, false};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const FaultPlan plan{.faults = {{.target = kRandomWorker, .at_step = 1}}, .seed = seed};
    const auto once = Describe(FaultDriver(plan, kBegan).Step(At(1), kAll, kBegan));
    EXPECT_EQ(once, Describe(FaultDriver(plan, kBegan).Step(At(1), kAll, kBegan)));
    ASSERT_EQ(once.size(), 1u);
    seen[0] |= once[0] == "kill worker-0";
    seen[1] |= once[0] == "kill worker-1";
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

}  // namespace
}  // namespace muster::agent
