#include "lib/domain/plugin_use.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PluginChange ChangeTo(const char* after, int64_t lineage, int64_t step) {
  return {LineageNumber(lineage), Step(step), "?", after, "ann"};
}
Lineage From(int64_t number, int64_t parent, int64_t fork) {
  return {LineageNumber(number), LineageNumber(parent), Step(fork), ""};
}

struct Case {
  const char* what;
  std::vector<PluginChange> changes;
  std::vector<Lineage> lineages;
  std::vector<PluginUse> uses;
};

TEST(PluginUse, IsToldByTheHistoryThatMadeTheNewestState) {
  const PluginUse a{0, "a", std::nullopt};
  const Case cases[] = {
      {"one file", {}, {From(1, 0, 0)}, {a}},
      {"one change", {ChangeTo("b", 1, 100)}, {From(1, 0, 0)}, {a, {100, "b", "ann"}}},
      {"with the lineage that goes back for it",
       {ChangeTo("b", 2, 90)},
       {From(1, 0, 0), From(2, 1, 90)},
       {a, {90, "b", "ann"}}},
      {"it went back to before the change later",
       {ChangeTo("b", 1, 100)},
       {From(1, 0, 0), From(2, 1, 60)},
       {a, {60, "b", "ann"}}},
      {"it went back to after the change",
       {ChangeTo("b", 1, 100)},
       {From(1, 0, 0), From(2, 1, 160)},
       {a, {100, "b", "ann"}}},
      {"before two changes",
       {ChangeTo("b", 1, 100), ChangeTo("c", 1, 200)},
       {From(1, 0, 0), From(2, 1, 60)},
       {a, {60, "c", "ann"}}},
      {"between two changes",
       {ChangeTo("b", 1, 100), ChangeTo("c", 1, 200)},
       {From(1, 0, 0), From(2, 1, 150)},
       {a, {100, "b", "ann"}, {150, "c", "ann"}}},
      {"back to the first file before a step counted",
       {ChangeTo("b", 1, 100), ChangeTo("a", 2, 100)},
       {From(1, 0, 0), From(2, 1, 100)},
       {a}},
      {"anew from the beginning",
       {ChangeTo("b", 2, 0)},
       {From(1, 0, 0), From(2, 0, 0)},
       {{0, "b", "ann"}}},
  };
  for (const Case& one : cases)
    EXPECT_EQ(PluginUses("a", Step(0), one.changes, one.lineages), one.uses) << one.what;
  EXPECT_THAT(PluginUses("", Step(0), {}, {}), IsEmpty()) << "a task that is part of Muster";
}

TEST(PluginUse, AChangeIsOneSentence) {
  EXPECT_THAT(DescribeChanges({{0, "a", std::nullopt}}), IsEmpty());
  EXPECT_THAT(DescribeChanges({{0, "a", std::nullopt}, {5, "b", "ann"}, {7, "c", ""}}),
              ElementsAre("from step 5 on b computes in place of a, which user ann accepted",
                          "from step 7 on c computes in place of b, which a person accepted"));
  EXPECT_THAT(DescribeChanges({{5, "b", "ann"}}),
              ElementsAre("from step 5 on b computes, which user ann accepted"));
}

}  // namespace
}  // namespace muster
