#include "cli/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::cli {
namespace {

using testing::HasSubstr;

CheckpointPlace At(int64_t lineage, int64_t step) { return {LineageNumber(lineage), Step(step)}; }

const std::vector<NamedPlace> kPlaces = {
    {At(2, 30), "late"}, {At(1, 10), "early"}, {At(1, 30), ""}, {At(1, 40), ""}, {At(2, 35), ""}};

CheckpointPlace Chosen(const std::string& which) {
  const auto place = ChoosePlace(kPlaces, "folder", which);
  EXPECT_TRUE(place.ok()) << place.status();
  return place.value_or(At(0, 0));
}

TEST(ChoosePlace, TakesTheNewestOrThatOfAStepOrAName) {
  EXPECT_EQ(Chosen(""), At(2, 35)) << "of the last lineage, whatever others had";
  EXPECT_EQ(Chosen("30"), At(2, 30));
  EXPECT_EQ(Chosen("010"), At(1, 10));
  EXPECT_EQ(Chosen("40"), At(1, 40));
  EXPECT_EQ(Chosen("early"), At(1, 10));
}

TEST(ChoosePlace, WhatIsNotThereIsAnsweredByWhatIs) {
  EXPECT_THAT(std::string(ChoosePlace(kPlaces, "folder", "31").status().message()),
              HasSubstr("no checkpoint of step 31; there are those of 10, 30, 35, 40"));
  EXPECT_THAT(std::string(ChoosePlace(kPlaces, "folder", "best").status().message()),
              HasSubstr("kept as 'best'; there are early, late"));
  EXPECT_THAT(std::string(ChoosePlace({{At(1, 1), ""}}, "folder", "best").status().message()),
              HasSubstr("none has a name"));
  EXPECT_THAT(std::string(ChoosePlace({}, "folder", "").status().message()),
              HasSubstr("folder holds no checkpoint"));
}

TEST(WhichOf, AJobMaySayItToo) {
  EXPECT_EQ(WhichOf({.job = "a"}), "");
  EXPECT_EQ(WhichOf({.job = "a@40"}), "40");
  EXPECT_EQ(WhichOf({.job = "a@best"}), "best");
  EXPECT_EQ(WhichOf({.job = "a@best", .step = "40"}), "40") << "an option is said last";
  EXPECT_EQ(CheckpointFolderOf({.job = "a@best", .dir = "d"}).value(), "d/checkpoints/a");
}

}  // namespace
}  // namespace muster::cli
