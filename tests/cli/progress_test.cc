#include "cli/progress.h"

#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

StepSeen Seen(const std::string& member, int64_t step, double loss = 1) {
  return {.member = member, .step = step, .loss = loss, .samples = 24};
}

TEST(ProgressTest, TheLearningRateIsKnownWhereTheScheduleIs) {
  TrainingSpec training;
  training.optimizer.learning_rate = 0.5;
  training.schedule.warmup_steps = 2;
  EXPECT_EQ(LearningRateAt(training, {.step = 0}), 0.25) << "it does not depend on the length";
  EXPECT_EQ(LearningRateAt(training, {.step = 7}), 0.5);
  training.schedule.kind = ScheduleKind::kLinear;
  EXPECT_EQ(LearningRateAt(training, {.step = 7}), std::nullopt)
      << "nobody knows how many there are";
  EXPECT_EQ(LearningRateAt(training, {.step = 9, .steps = 10}), 0);
  EXPECT_EQ(LearningRateAt(training, {.step = 10, .steps = 10}), std::nullopt);
}

TEST(ProgressTest, NothingBeforeTheFirstStep) { EXPECT_EQ(ProgressTracker().Now(), std::nullopt); }

TEST(ProgressTest, SpeedAndTimeLeft) {
  ProgressTracker tracker;
  tracker.SetTotals(100, 0);
  Time now{};
  for (int64_t step = 1; step <= 10; ++step)
    tracker.OnStep(Seen("worker-0", step), now += milliseconds(500));
  const Progress progress = tracker.Now().value();
  EXPECT_EQ(progress.step, 10);
  EXPECT_EQ(progress.steps, 100);
  EXPECT_DOUBLE_EQ(progress.samples_per_second, 48);
  EXPECT_DOUBLE_EQ(progress.seconds_left, 44.5);
}

TEST(ProgressTest, EachStepCountsOnceHoweverManyTellIt) {
  ProgressTracker tracker;
  Time now{};
  for (int64_t step = 1; step <= 5; ++step) {
    EXPECT_TRUE(tracker.OnStep(Seen("worker-0", step), now += seconds(1)));
    EXPECT_FALSE(tracker.OnStep(Seen("worker-1", step), now));
  }
  EXPECT_DOUBLE_EQ(tracker.Now()->samples_per_second, 24);
}

TEST(ProgressTest, AWorkerBehindDoesNotTurnItBack) {
  ProgressTracker tracker;
  tracker.OnStep(Seen("worker-0", 7), Time{} + seconds(1));
  EXPECT_FALSE(tracker.OnStep(Seen("worker-1", 6), Time{} + seconds(2)));
  EXPECT_EQ(tracker.Now()->step, 7);
}

TEST(ProgressTest, ARewindTurnsItBackOnceAllAreBack) {
  ProgressTracker tracker;
  tracker.OnStep(Seen("worker-0", 40), Time{} + seconds(1));
  tracker.OnStep(Seen("worker-1", 40), Time{} + seconds(1));
  EXPECT_FALSE(tracker.OnStep(Seen("worker-0", 26), Time{} + seconds(2)));
  EXPECT_TRUE(tracker.OnStep(Seen("worker-1", 26), Time{} + seconds(2)));
  EXPECT_EQ(tracker.Now()->step, 26);
  EXPECT_DOUBLE_EQ(tracker.Now()->samples_per_second, 0) << "the way back is not speed";
}

TEST(ProgressTest, WhoIsGoneDoesNotHoldTheOthersUp) {
  ProgressTracker tracker;
  tracker.OnStep(Seen("worker-0", 40), Time{} + seconds(1));
  tracker.OnGone("worker-0");
  EXPECT_TRUE(tracker.OnStep(Seen("worker-1", 26), Time{} + seconds(2)));
}

TEST(ProgressTest, APauseLeavesTheWindow) {
  ProgressTracker tracker;
  tracker.OnStep(Seen("worker-0", 1, 5.5), Time{} + seconds(1));
  tracker.OnStep(Seen("worker-0", 2), Time{} + seconds(100));
  tracker.OnStep(Seen("worker-0", 3), Time{} + seconds(101));
  EXPECT_DOUBLE_EQ(tracker.Now()->samples_per_second, 24);
  EXPECT_DOUBLE_EQ(tracker.first_loss().value(), 5.5);
}

}  // namespace
}  // namespace muster::cli
