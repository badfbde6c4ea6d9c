#include "lib/base/awake_clock.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/hand_clock.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

struct Row {
  std::string name;
  std::vector<int> gaps;  // milliseconds between two times of asking
  int counted;            // of all
};
class AwakeClockTable : public testing::TestWithParam<Row> {};

TEST_P(AwakeClockTable, OfATimeInWhichNobodyAsksOnlyAPartCounts) {
  HandClock hand;
  hand.Advance(std::chrono::hours(1));
  const AwakeClock clock(hand, milliseconds(100));
  const Time start = clock.Now();
  for (const int gap : GetParam().gaps) {
    hand.Advance(milliseconds(gap));
    clock.Now();
  }
  EXPECT_EQ(clock.Now() - start, milliseconds(GetParam().counted));
}

INSTANTIATE_TEST_SUITE_P(All, AwakeClockTable,
                         testing::ValuesIn(std::vector<Row>{
                             {"AtOnce", {0, 0}, 0},
                             {"NoGap", {40, 50, 60}, 150},
                             {"JustNoGap", {100}, 100},
                             {"JustAGap", {101}, 100},
                             {"ALongSleep", {3'600'000}, 100},
                             {"AfterASleepItGoesOn", {10, 5000, 10, 20}, 140},
                             {"SleepsThatComeAgainAndAgainEndToo", {500, 500, 500, 500}, 400},
                         }),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace muster
