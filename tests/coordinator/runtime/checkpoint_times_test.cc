#include "coordinator/runtime/checkpoint_times.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

constexpr LineageNumber kLineage(1);

Time At(int64_t seconds) { return Time() + std::chrono::seconds(seconds); }

TEST(CheckpointTimesTest, CountFromTheStartOfThePartThatBeganFirst) {
  CheckpointTimes times;
  times.PartWritten("job", kLineage, Step(10), 1, At(100));
  times.PartWritten("job", kLineage, Step(10), 5, At(102));
  times.PartWritten("job", kLineage, Step(10), 1, At(103));
  EXPECT_EQ(times.Committed("job", kLineage, Step(10), At(104)), 104.0 - 97);
}

TEST(CheckpointTimesTest, ACommitForgetsWhatCameBefore) {
  CheckpointTimes times;
  times.PartWritten("job", kLineage, Step(10), 0, At(100));
  times.PartWritten("job", kLineage, Step(20), 0, At(200));
  times.PartWritten("job", kLineage, Step(30), 0, At(300));
  EXPECT_EQ(times.Committed("job", kLineage, Step(20), At(201)), 1.0);
  EXPECT_EQ(times.Committed("job", kLineage, Step(10), At(202)), std::nullopt);
  EXPECT_EQ(times.Committed("job", kLineage, Step(20), At(202)), std::nullopt);
  EXPECT_EQ(times.Committed("job", kLineage, Step(30), At(302)), 2.0);
}

TEST(CheckpointTimesTest, WhatIsNoTimeCountsAsNone) {
  for (const double seconds :
       {-1.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    CheckpointTimes times;
    times.PartWritten("job", kLineage, Step(10), seconds, At(100));
    EXPECT_EQ(times.Committed("job", kLineage, Step(10), At(101)), 1.0) << seconds;
  }
}

TEST(CheckpointTimesTest, ThoseThatNeverCommitAreForgotten) {
  CheckpointTimes times;
  for (int64_t step = 0; step < 1000; ++step)
    times.PartWritten("job", kLineage, Step(step), 0, At(step));
  EXPECT_EQ(times.Committed("job", kLineage, Step(500), At(1000)), std::nullopt);
  EXPECT_EQ(times.Committed("job", kLineage, Step(999), At(1000)), 1.0);
}

TEST(CheckpointTimesTest, OfAJobThatIsForgottenAreNotThoseOfTheNextOfItsId) {
  CheckpointTimes times;
  times.PartWritten("a", LineageNumber(1), Step(4), 1, At(5));
  times.Forget("a");
  EXPECT_FALSE(times.Committed("a", LineageNumber(1), Step(4), At(9)).has_value());
}

TEST(CheckpointTimesTest, OfOneJobAreNotThoseOfAnother) {
  CheckpointTimes times;
  times.PartWritten("a", kLineage, Step(10), 0, At(100));
  times.PartWritten("b", kLineage, Step(10), 0, At(150));
  times.PartWritten("c", kLineage, Step(10), 0, At(160));
  EXPECT_EQ(times.Committed("b", kLineage, Step(10), At(151)), 1.0);
  EXPECT_EQ(times.Committed("a", kLineage, Step(10), At(152)), 52.0) << "nor forgotten with it";
  EXPECT_EQ(times.Committed("c", kLineage, Step(10), At(162)), 2.0);
}

}  // namespace
}  // namespace muster::coordinator
