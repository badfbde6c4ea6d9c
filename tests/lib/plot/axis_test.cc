#include "lib/plot/axis.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::plot {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Labels(double least, double largest, const AxisOptions& options = {}) {
  return MakeAxis(least, largest, options).labels;
}

TEST(AxisTest, TicksAreNumbersThatPeopleCountWith) {
  EXPECT_THAT(Labels(0, 1), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(Labels(-3, 7), ElementsAre("-2", "0", "2", "4", "6"));
  EXPECT_THAT(Labels(2.31, 2.34),
              ElementsAre("2.310", "2.315", "2.320", "2.325", "2.330", "2.335", "2.340"));
  EXPECT_THAT(Labels(0, 20'000), ElementsAre("0", "5k", "10k", "15k", "20k"));
  EXPECT_THAT(Labels(0, 3e6, {.most_ticks = 3}), ElementsAre("0", "1M", "2M", "3M"));
  EXPECT_THAT(Labels(0, 4e-7), ElementsAre("0", "1e-7", "2e-7", "3e-7", "4e-7"));
}

TEST(AxisTest, StepsAreWhole) {
  EXPECT_THAT(Labels(0, 2, {.is_whole = true, .most_ticks = 8}), ElementsAre("0", "1", "2"));
  EXPECT_THAT(Labels(7, 7, {.is_whole = true}), ElementsAre("6", "7", "8"));
}

TEST(AxisTest, ALogarithmHasPowersOfTenAndWhatIsBetweenThemWhereTheyAreFew) {
  EXPECT_THAT(Labels(0.001, 1000, {.is_log = true, .most_ticks = 6}),
              ElementsAre("0.001", "0.01", "0.1", "1", "10", "100", "1e3"));
  EXPECT_THAT(Labels(1, 30, {.is_log = true}), ElementsAre("1", "2", "5", "10", "20"));
  EXPECT_THAT(Labels(2.1, 2.4, {.is_log = true}),
              ElementsAre("2.10", "2.15", "2.20", "2.25", "2.30", "2.35", "2.40"));
  const Axis axis = MakeAxis(1, 100, {.is_log = true});
  EXPECT_DOUBLE_EQ(axis.At(10), 0.5);
}

TEST(AxisTest, WhereAllIsAlikeThereIsRoomAroundIt) {
  for (const double value : {0.0, 5.0, -5.0, 1e300, 1e-300, 5e-324}) {
    const Axis axis = MakeAxis(value, value, {});
    EXPECT_LT(axis.low, value) << value;
    EXPECT_GT(axis.high, value) << value;
    EXPECT_FALSE(axis.ticks.empty()) << value;
  }
}

// Whatever a loss may be: there are some ticks and not many, all of them inside, each with a label
// of its own.
TEST(AxisTest, AnyRangeHasTicks) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> power(-250, 290), part(0, 1);
  for (int round = 0; round < 20'000; ++round) {
    const bool is_log = round % 2 == 0;
    double least = std::pow(10, power(random)) * (is_log || part(random) < 0.5 ? 1 : -1);
    double largest = part(random) < 0.5 ? std::pow(10, power(random)) : std::fabs(least) * 1.3;
    if (least > largest) std::swap(least, largest);
    const Axis axis = MakeAxis(least, largest, {.is_log = is_log});
    ASSERT_LT(axis.low, axis.high) << least << " to " << largest;
    ASSERT_GE(axis.ticks.size(), 2u) << least << " to " << largest << " " << is_log;
    ASSERT_LE(axis.ticks.size(), 16u) << least << " to " << largest;
    ASSERT_EQ(axis.ticks.size(), axis.labels.size());
    for (size_t i = 0; i < axis.ticks.size(); ++i) {
      ASSERT_GE(axis.At(axis.ticks[i]), -1e-6) << least << " to " << largest;
      ASSERT_LE(axis.At(axis.ticks[i]), 1 + 1e-6) << least << " to " << largest;
      if (i > 0) {
        ASSERT_NE(axis.labels[i], axis.labels[i - 1]) << least << " to " << largest;
      }
    }
  }
}

TEST(AxisTest, NumbersAreShort) {
  EXPECT_EQ(ShortNumber(0.25), "0.25");
  EXPECT_EQ(ShortNumber(1234.5), "1234.5");
  EXPECT_EQ(ShortNumber(1.5e-7), "1.5e-7");
  EXPECT_EQ(ShortNumber(NAN), "?");
}

}  // namespace
}  // namespace muster::plot
