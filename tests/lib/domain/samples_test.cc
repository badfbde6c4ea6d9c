#include "lib/domain/samples.h"

#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;

std::vector<uint64_t> WholeOrder(uint64_t seed, int64_t epoch, uint64_t n) {
  const EpochOrder order(seed, epoch, n);
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < n; ++i) ids.push_back(order.At(i));
  return ids;
}

TrainingSpec TrainingOf(int64_t batch, int32_t lanes) {
  TrainingSpec training;
  training.batch = batch;
  training.lanes = lanes;
  training.seed = 11;
  return training;
}

// Sizes that divide by nothing, around powers of two and of four, and of one.
constexpr uint64_t kSizes[] = {1, 2, 3, 4, 5, 16, 17, 97, 1009, 65537};

TEST(EpochOrder, IsABijectionForEverySize) {
  for (uint64_t n : kSizes)
    for (int64_t epoch : {0, 1, 1000}) {
      std::vector<bool> seen(n, false);
      const EpochOrder order(5, epoch, n);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t id = order.At(i);
        ASSERT_LT(id, n);
        ASSERT_FALSE(seen[id]) << "id " << id << " of " << n << " comes twice";
        seen[id] = true;
      }
    }
}

TEST(EpochOrder, DiffersBetweenEpochsAndSeeds) {
  for (uint64_t n : {17, 97, 1009}) {
    EXPECT_NE(WholeOrder(5, 0, n), WholeOrder(5, 1, n));
    EXPECT_NE(WholeOrder(5, 0, n), WholeOrder(6, 0, n));
    EXPECT_EQ(WholeOrder(5, 3, n), WholeOrder(5, 3, n));
  }
}

// Computed by a second implementation. Whoever changes these breaks every job that goes on from a
// checkpoint.
TEST(EpochOrder, NeverChanges) {
  EXPECT_THAT(WholeOrder(0, 0, 10), ElementsAre(5, 1, 7, 6, 0, 4, 3, 9, 2, 8));
  EXPECT_THAT(WholeOrder(7, 0, 10), ElementsAre(9, 5, 3, 8, 1, 0, 2, 7, 4, 6));
  EXPECT_THAT(WholeOrder(7, 1, 10), ElementsAre(7, 6, 2, 4, 5, 0, 9, 8, 1, 3));
  EXPECT_THAT(WholeOrder(7, 0, 17),
              ElementsAre(8, 12, 16, 6, 2, 10, 9, 15, 4, 5, 3, 13, 1, 11, 14, 7, 0));
  const EpochOrder million(42, 3, 1000003);
  EXPECT_EQ(million.At(0), 481323u);
  EXPECT_EQ(million.At(1), 555074u);
  EXPECT_EQ(million.At(2), 314024u);
  EXPECT_EQ(million.At(1000002), 142366u);
  const uint64_t huge = (uint64_t{1} << 40) + 7;
  const EpochOrder trillion(42, 3, huge);
  EXPECT_EQ(trillion.At(0), 565855380822u);
  EXPECT_EQ(trillion.At(1), 466262933889u);
  EXPECT_EQ(trillion.At(huge - 1), 888441298040u);
}

TEST(LaneSeed, NeverChanges) {
  EXPECT_EQ(LaneSeed(0, Step(0), LaneId(0)), 0xdaa9a7ef0e614fffu);
  EXPECT_EQ(LaneSeed(1, Step(0), LaneId(0)), 0x936f875b8b5e7475u);
  EXPECT_EQ(LaneSeed(0, Step(1), LaneId(0)), 0x8ed91ac4a4cc4244u);
  EXPECT_EQ(LaneSeed(0, Step(0), LaneId(1)), 0x1fcda448f9d1ecf0u);
  EXPECT_EQ(LaneSeed(42, Step(1000), LaneId(63)), 0xb159dfa6a4b721b4u);
}

TEST(LaneSeed, IsAnotherOneForEveryStepAndLane) {
  std::set<uint64_t> seeds;
  for (int64_t step = 0; step < 100; ++step)
    for (int32_t lane = 0; lane < 64; ++lane) seeds.insert(LaneSeed(3, Step(step), LaneId(lane)));
  EXPECT_EQ(seeds.size(), 6400u);
}

TEST(LaneSamples, PartitionTheStepExactly) {
  for (uint64_t n : {1, 2, 3, 7, 16, 97})
    for (int64_t batch : {1, 2, 3, 5, 16, 97, 200})
      for (int32_t lanes : {1, 2, 3, 6, 7, 33}) {
        const TrainingSpec training = TrainingOf(batch, lanes);
        for (int64_t step = 0; step < 2 * StepsPerEpoch(training, n) + 1; ++step) {
          const SampleRange all = StepSamples(training, n, Step(step));
          const uint64_t small = all.count / static_cast<uint64_t>(lanes);
          uint64_t next = all.first, last_count = small + 1;
          for (int32_t l = 0; l < lanes; ++l) {
            const SampleRange part = LaneSamples(training, n, Step(step), LaneId(l));
            EXPECT_EQ(part.epoch, all.epoch);
            EXPECT_EQ(part.first, next);
            EXPECT_LE(part.count, last_count) << "extra samples go to the first lanes";
            EXPECT_GE(part.count, small);
            last_count = part.count;
            next += part.count;
          }
          EXPECT_EQ(next, all.first + all.count);
        }
      }
}

TEST(LaneSamples, LanesBeyondTheSamplesAreEmpty) {
  const TrainingSpec training = TrainingOf(3, 5);
  EXPECT_EQ(LaneSamples(training, 10, Step(1), LaneId(2)), (SampleRange{0, 5, 1}));
  EXPECT_EQ(LaneSamples(training, 10, Step(1), LaneId(3)), (SampleRange{0, 6, 0}));
  EXPECT_EQ(LaneSamples(training, 10, Step(1), LaneId(4)), (SampleRange{0, 6, 0}));
}

TEST(StepSamples, TheLastStepOfAnEpochMayBeShort) {
  const TrainingSpec training = TrainingOf(4, 2);
  EXPECT_EQ(StepSamples(training, 10, Step(1)), (SampleRange{0, 4, 4}));
  EXPECT_EQ(StepSamples(training, 10, Step(2)), (SampleRange{0, 8, 2}));
  EXPECT_EQ(StepSamples(training, 10, Step(3)), (SampleRange{1, 0, 4}));
  EXPECT_EQ(StepSamples(TrainingOf(100, 2), 10, Step(5)), (SampleRange{5, 0, 10}));
}

TEST(SampleIds, EveryEpochHoldsEachIdOnce) {
  for (uint64_t n : {1, 2, 13, 97})
    for (int64_t batch : {1, 4, 7, 150}) {
      const TrainingSpec training = TrainingOf(batch, 3);
      const int64_t per_epoch = StepsPerEpoch(training, n);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<int> uses(n, 0);
        for (int64_t s = epoch * per_epoch; s < (epoch + 1) * per_epoch; ++s)
          for (int32_t l = 0; l < training.lanes; ++l)
            for (uint64_t id : SampleIds(training, n, LaneSamples(training, n, Step(s), LaneId(l))))
              ++uses[id];
        EXPECT_THAT(uses, testing::Each(1))
            << n << " samples, batch " << batch << ", epoch " << epoch;
      }
    }
}

TEST(EpochOrder, FindsWhereASampleIs) {
  for (uint64_t n : kSizes) {
    const EpochOrder order(5, 3, n);
    for (uint64_t i = 0; i < n; i += 1 + n / 97) ASSERT_EQ(order.PositionOf(order.At(i)), i) << n;
  }
}

TEST(PlaceOfSample, IsTheLaneThatHasIt) {
  constexpr uint64_t kMany = 97;
  for (const auto& [batch, lanes] : {std::pair(8, 3), {8, 8}, {5, 7}, {97, 4}, {200, 12}, {1, 1}}) {
    const TrainingSpec training = TrainingOf(batch, lanes);
    for (Step step(0); step < Step(2 * StepsPerEpoch(training, kMany)); ++step)
      for (LaneId lane(0); lane < LaneId(lanes); ++lane) {
        const SampleRange range = LaneSamples(training, kMany, step, lane);
        for (const uint64_t id : SampleIds(training, kMany, range))
          ASSERT_EQ(PlaceOfSample(training, kMany, range.epoch, id), (SamplePlace{step, lane}))
              << "sample " << id << ", batch " << batch;
      }
  }
}

TEST(Lengthening, IsMoreStepsOfTheSameTrainingWhereNothingDependsOnThem) {
  TrainingSpec held = TrainingOf(8, 2);
  held.steps = 100;
  const auto why_not = [&](const TrainingSpec& asked) {
    return LengtheningOf(held, asked).why_not;
  };
  EXPECT_EQ(LengtheningOf(held, held).field, "") << "nothing is asked";
  TrainingSpec asked = held;
  asked.steps = 150;
  EXPECT_TRUE(LengtheningOf(held, asked).is_possible());
  asked.steps = 50;
  EXPECT_EQ(LengtheningOf(held, asked).field, "steps");
  EXPECT_EQ(why_not(asked), "50 is less than the 100 that the job has");
  asked.steps = 0;
  asked.epochs = 2;
  EXPECT_EQ(why_not(asked), "the job is measured in steps");
  asked = held;
  asked.steps = 150;
  asked.seed = 12;
  EXPECT_EQ(LengtheningOf(held, asked).field, "") << "another training";
  for (const ScheduleKind kind : {ScheduleKind::kStep, ScheduleKind::kMilestones}) {
    held.schedule.kind = kind;
    asked = held;
    asked.steps = 150;
    EXPECT_TRUE(LengtheningOf(held, asked).is_possible());
  }
  held.schedule.kind = ScheduleKind::kCosine;
  asked = held;
  asked.steps = 150;
  EXPECT_THAT(why_not(asked), testing::StartsWith("schedule.kind depends on the length"));
}

// An old journal may hold any number.
TEST(StepsPerEpoch, AreSomeForEveryNumberOfSamples) {
  const uint64_t all = std::numeric_limits<uint64_t>::max();
  for (const uint64_t n : {uint64_t{0}, uint64_t{1}, kMostSamples, uint64_t{1} << 63, all - 1, all})
    for (const int64_t batch : {int64_t{1}, int64_t{7}, int64_t{1} << 31}) {
      TrainingSpec training = TrainingOf(batch, 3);
      training.epochs = int64_t{1} << 20;
      const int64_t steps = StepsPerEpoch(training, n);
      EXPECT_GE(steps, 1) << n << " in " << batch;
      EXPECT_GE(TotalSteps(training, n), steps) << n << " in " << batch;
      for (const int64_t step : {int64_t{0}, steps - 1, int64_t{1} << 62}) {
        const SampleRange range = StepSamples(training, n, Step(step));
        EXPECT_LE(range.count, static_cast<uint64_t>(batch));
        EXPECT_LE(range.first + range.count, n);
      }
    }
  EXPECT_EQ(StepsPerEpoch(TrainingOf(4, 1), 8), 2);
  EXPECT_EQ(StepsPerEpoch(TrainingOf(4, 1), 9), 3);
}

TEST(TotalSteps, FollowFromStepsOrEpochs) {
  TrainingSpec training = TrainingOf(4, 1);
  training.epochs = 3;
  EXPECT_EQ(TotalSteps(training, 10), 9);
  training.epochs = 0;
  training.steps = 5;
  EXPECT_EQ(TotalSteps(training, 10), 5);
}

}  // namespace
}  // namespace muster
