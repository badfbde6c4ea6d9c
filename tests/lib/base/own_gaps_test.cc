#include "lib/base/own_gaps.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

using std::chrono::seconds;

struct Row {
  std::string name;
  std::vector<int> wakes;  // seconds after the start
  bool gap;                // before the last of them
  int stood_still;         // seconds, as it seems at the last of them
  int counted;             // of these
};
class OwnGapsTable : public testing::TestWithParam<Row> {};

TEST_P(OwnGapsTable, WhatSeemsToStandStillDidSoWithUs) {
  OwnGaps gaps(seconds(2), Time{});
  bool gap = false;
  for (const int wake : GetParam().wakes) gap = gaps.Wake(Time{} + seconds(wake));
  EXPECT_EQ(gap, GetParam().gap);
  EXPECT_EQ(gaps.Since(seconds(GetParam().stood_still)), seconds(GetParam().counted));
}

INSTANTIATE_TEST_SUITE_P(All, OwnGapsTable,
                         testing::ValuesIn(std::vector<Row>{
                             {"NoGap", {2, 4, 6}, false, 100, 100},
                             {"JustAGap", {3}, true, 3, 0},
                             {"AfterAGap", {500, 501, 502}, false, 502, 2},
                             {"BegunAfterTheGap", {500, 501, 502}, false, 1, 1},
                             {"TheLastGapCounts", {500, 502, 600, 601}, false, 601, 1},
                         }),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace muster
