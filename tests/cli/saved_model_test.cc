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

// Who has called one so means that one.
TEST(ChoosePlace, BestIsANameBeforeItIsAMeasure) {
  std::vector<NamedPlace> places = {{At(1, 10), "", true}, {At(1, 30), ""}};
  EXPECT_EQ(ChoosePlace(places, "folder", "best").value(), At(1, 10));
  EXPECT_EQ(ChoosePlace(places, "folder", "").value(), At(1, 30));
  places.push_back({At(1, 20), "best"});
  EXPECT_EQ(ChoosePlace(places, "folder", "best").value(), At(1, 20));
}

SurveyedCheckpoint Measured(int64_t step, const std::string& keep, double value,
                            const std::string& why_not = "") {
  SurveyedCheckpoint one{.lineage = LineageNumber(1), .step = Step(step), .why_not = why_not};
  one.file.emplace();
  one.file->manifest.spec =
      "{\"task\":\"counting\",\"steps\":9,\"validation\":{\"every_steps\":2,\"paths\":[\"/v\"]},"
      "\"checkpoint\":{\"keep\":" +
      keep + "}}";
  one.measure = StateMeasure{"validation.loss", value};
  return one;
}

TEST(BestIn, IsByTheRuleOfTheNewestAndWhole) {
  const std::string rule = "{\"best\":\"validation.loss\"}";
  EXPECT_EQ(BestIn({Measured(2, rule, 3), Measured(4, rule, 2), Measured(6, rule, 4)}), 1u);
  EXPECT_EQ(BestIn({Measured(2, rule, 3), Measured(4, rule, 2, "torn"), Measured(6, rule, 4)}), 0u);
  EXPECT_EQ(BestIn({Measured(2, rule, 3), Measured(4, "3", 2)}), std::nullopt);
  EXPECT_EQ(BestIn({Measured(2, "3", 3), Measured(4, rule, 5)}), 0u);
  EXPECT_EQ(BestIn({}), std::nullopt);
}

TEST(ChoosePlace, WhatIsNotThereIsAnsweredByWhatIs) {
  EXPECT_THAT(std::string(ChoosePlace(kPlaces, "folder", "31").status().message()),
              HasSubstr("no checkpoint of step 31; there are those of 10, 30, 35, 40"));
  EXPECT_THAT(std::string(ChoosePlace(kPlaces, "folder", "good").status().message()),
              HasSubstr("kept as 'good'; there are early, late"));
  EXPECT_THAT(std::string(ChoosePlace({{At(1, 1), ""}}, "folder", "good").status().message()),
              HasSubstr("none has a name"));
  EXPECT_THAT(std::string(ChoosePlace(kPlaces, "folder", "best").status().message()),
              HasSubstr("no checkpoint that was measured; checkpoint.keep: {best: "));
  EXPECT_THAT(std::string(ChoosePlace({}, "folder", "").status().message()),
              HasSubstr("folder holds no checkpoint"));
}

// Digits alone are a step.
TEST(ChoosePlace, WhatOnlyLooksLikeANumberIsNoStep) {
  for (const char* which : {"+30", "-30", " 30", "30 "})
    EXPECT_TRUE(absl::IsNotFound(ChoosePlace(kPlaces, "folder", which).status())) << which;
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
