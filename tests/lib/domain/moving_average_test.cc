#include "lib/domain/moving_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

using testing::HasSubstr;

TEST(MovingAverageTest, BeginsWithTheFirstStepOrComesFromAParent) {
  TrainingSpec training;
  EXPECT_FALSE(HasAverageAt(training, Step(7)));
  training.ema_decay = 0.5;
  EXPECT_FALSE(HasAverageAt(training, Step(0)));
  EXPECT_TRUE(HasAverageAt(training, Step(1)));
  training.initial.parent = ParentState{.job = "p", .average = true};
  EXPECT_TRUE(HasAverageAt(training, Step(0)));
  training.initial.parent->average = false;
  EXPECT_FALSE(HasAverageAt(training, Step(0)));
}

TEST(MovingAverageTest, ItsSlotIsTheLastAndWhatIsMissingIsNamed) {
  TrainingSpec training;
  training.optimizer.kind = OptimizerKind::kAdam;
  Manifest manifest;
  manifest.job = "job-1";
  manifest.step = Step(4);
  manifest.slots = 2;
  const absl::Status none = AverageSlotOf(training, manifest).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("ema.decay"));
  training.ema_decay = 0.5;
  EXPECT_EQ(AverageSlotOf(training, manifest).status().code(), absl::StatusCode::kDataLoss);
  manifest.slots = 3;
  EXPECT_EQ(AverageSlotOf(training, manifest).value(), 3);
  training.optimizer.kind = OptimizerKind::kSgd;
  manifest.slots = 1;
  EXPECT_EQ(AverageSlotOf(training, manifest).value(), 1);
  manifest.step = Step(0);
  const absl::Status yet = AverageSlotOf(training, manifest).status();
  EXPECT_EQ(yet.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(yet.message()), HasSubstr("step 0 of job job-1 has no moving average"));
}

}  // namespace
}  // namespace muster
