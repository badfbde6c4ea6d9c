#include "lib/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster {
namespace {

constexpr OptimizerSpec kOptimizer = {.learning_rate = 0.4};

double Rate(const ScheduleSpec& schedule, int64_t step, int64_t total) {
  return LearningRate(kOptimizer, schedule, step, total);
}

TEST(LearningRate, ConstantIsTheGivenRateExactly) {
  for (int64_t step = 0; step < 7; ++step)
    EXPECT_EQ(Rate({.kind = ScheduleKind::kConstant, .final_ratio = 0.3}, step, 7), 0.4);
}

TEST(LearningRate, WarmsUpFromAboveZeroToTheFullRate) {
  for (ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    const ScheduleSpec schedule = {.kind = kind, .warmup_steps = 4};
    EXPECT_DOUBLE_EQ(Rate(schedule, 0, 100), 0.1);
    EXPECT_DOUBLE_EQ(Rate(schedule, 1, 100), 0.2);
    EXPECT_DOUBLE_EQ(Rate(schedule, 2, 100), 0.3);
    EXPECT_EQ(Rate(schedule, 3, 100), 0.4);
  }
}

TEST(LearningRate, LinearFallsToTheFinalRatioAtTheLastStep) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kLinear, .final_ratio = 0.25};
  EXPECT_EQ(Rate(schedule, 0, 11), 0.4);
  EXPECT_DOUBLE_EQ(Rate(schedule, 5, 11), 0.25);
  EXPECT_DOUBLE_EQ(Rate(schedule, 10, 11), 0.1);
}

TEST(LearningRate, CosineIsThatOfTheMathLibrary) {
  const ScheduleSpec schedule = {
      .kind = ScheduleKind::kCosine, .warmup_steps = 10, .final_ratio = 0.1};
  for (int64_t step = 10; step < 1000; ++step) {
    const double t = static_cast<double>(step - 9) / 990;
    const double expected = 0.4 * (0.1 + 0.9 * (1 + std::cos(M_PI * t)) / 2);
    EXPECT_NEAR(Rate(schedule, step, 1000), expected, 1e-15);
  }
  EXPECT_DOUBLE_EQ(Rate(schedule, 999, 1000), 0.04);
}

TEST(LearningRate, StartsAtTheFullRateWithoutWarmUp) {
  for (ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    EXPECT_EQ(Rate({.kind = kind}, 0, 1), 0.4);
    EXPECT_EQ(Rate({.kind = kind}, 0, 50), 0.4);
  }
}

TEST(LearningRate, NeverRisesAfterTheWarmUp) {
  for (ScheduleKind kind : {ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    const ScheduleSpec schedule = {.kind = kind, .warmup_steps = 3, .final_ratio = 0.05};
    for (int64_t step = 3; step < 500; ++step)
      EXPECT_LT(Rate(schedule, step, 500), Rate(schedule, step - 1, 500)) << step;
  }
}

TEST(LearningRate, AWarmUpLongerThanTheJobIsCutOff) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kCosine, .warmup_steps = 100};
  EXPECT_DOUBLE_EQ(Rate(schedule, 9, 10), 0.04);
}

}  // namespace
}  // namespace muster
