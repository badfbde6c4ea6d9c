#include "cli/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

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
  const auto best = [](const std::vector<SurveyedCheckpoint>& all) { return BestIn(all).value(); };
  EXPECT_EQ(best({Measured(2, rule, 3), Measured(4, rule, 2), Measured(6, rule, 4)}), 1u);
  EXPECT_EQ(best({Measured(2, rule, 3), Measured(4, rule, 2, "torn"), Measured(6, rule, 4)}), 0u);
  EXPECT_EQ(best({Measured(2, rule, 3), Measured(4, "3", 2)}), std::nullopt);
  EXPECT_EQ(best({Measured(2, "3", 3), Measured(4, rule, 5)}), 0u);
  EXPECT_EQ(best({}), std::nullopt);
}

// Whose measure cannot be read may be better than all others.
SurveyedCheckpoint Unread(SurveyedCheckpoint one) {
  one.measure.reset();
  one.measure_read = absl::DataLossError("the measure is torn");
  return one;
}

TEST(BestIn, NobodyKnowsItWhereAMeasureCannotBeRead) {
  const std::string rule = "{\"best\":\"validation.loss\"}";
  const std::vector<SurveyedCheckpoint> all = {Measured(2, rule, 3), Unread(Measured(4, rule, 2))};
  EXPECT_TRUE(absl::IsDataLoss(BestIn(all).status()));
  const absl::Status refused = ChooseOf(all, "folder", "best").status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("nobody knows which checkpoint is 'best': the measure is torn"));
  EXPECT_EQ(ChooseOf(all, "folder", "4").value().index, 1u) << "a step is a step";
  EXPECT_EQ(ChooseOf(all, "folder", "").value().index, 1u);
  EXPECT_EQ(BestIn({Measured(2, "3", 3), Unread(Measured(4, "3", 2))}).value(), std::nullopt)
      << "no job asks for it";
  EXPECT_EQ(BestIn({Measured(2, rule, 3), Unread(Measured(4, rule, 2, "torn"))}).value(), 0u)
      << "what is incomplete is not the best";
}

TEST(ChooseOf, ANameThatCannotBeReadMayBeTheOneThatIsMeant) {
  std::vector<SurveyedCheckpoint> all = {Measured(2, "3", 3), Measured(4, "3", 2)};
  all[0].name_read = absl::DataLossError("the name is torn");
  EXPECT_TRUE(absl::IsDataLoss(ChooseOf(all, "folder", "good").status()));
  EXPECT_TRUE(absl::IsDataLoss(ChooseOf(all, "folder", "best").status()));
  all[1].name = "good";
  EXPECT_EQ(ChooseOf(all, "folder", "good").value().index, 1u);
}

TEST(ChooseOf, TheNewestIsThatWhichIsWholeAndWhatIsPassedOverIsSaid) {
  const auto whole = ChooseOf({Measured(2, "3", 3), Measured(4, "3", 2)}, "folder", "");
  EXPECT_EQ(whole.value().index, 1u);
  EXPECT_EQ(whole->note, "");
  const std::vector<SurveyedCheckpoint> torn = {Measured(2, "3", 3), Measured(4, "3", 2, "torn"),
                                                Measured(6, "3", 2, "it has no manifest")};
  const auto older = ChooseOf(torn, "folder", "");
  EXPECT_EQ(older.value().index, 0u);
  EXPECT_EQ(older->note,
            "the checkpoint of step 2 is taken; that of step 6 is newer and passed over: it has no "
            "manifest (and 1 more)");
  EXPECT_EQ(ChooseOf({torn[1]}, "folder", "").value().index, 0u) << "whoever reads it says why not";
}

TEST(ChooseOf, OfAClusterItIsTheNewestThatTheJobWouldGoOnFrom) {
  const auto saved = [](int64_t step, bool complete, bool left_out) {
    SavedCheckpointAnswer one;
    one.lineage = 1;
    one.step = step;
    one.complete = complete;
    one.left_out = left_out;
    return one;
  };
  const auto chosen =
      ChooseOf({saved(2, true, false), saved(4, true, true), saved(6, false, false)}, "job a", "");
  EXPECT_EQ(chosen.value().index, 0u);
  EXPECT_THAT(chosen->note, HasSubstr("that of step 6 is newer and passed over"));
  EXPECT_EQ(ChooseOf({saved(2, true, true), saved(6, false, false)}, "job a", "").value().index, 0u)
      << "there is no other";
}

TEST(CheckpointFolderOf, AFileIsNoFolder) {
  const std::string file = testing::TempDir() + "a-file-and-no-folder";
  std::ofstream(file) << "x";
  for (const std::string& path : {file, file + "/below"}) {
    const absl::Status by_folder = CheckpointFolderOf({.checkpoints = path}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(by_folder)) << by_folder;
    EXPECT_THAT(std::string(by_folder.message()), HasSubstr("--checkpoints: '" + path));
    const absl::Status by_run = CheckpointFolderOf({.job = "a", .dir = path}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(by_run)) << by_run;
    EXPECT_THAT(std::string(by_run.message()), HasSubstr("--dir: '" + path));
  }
  EXPECT_TRUE(CheckpointFolderOf({.checkpoints = file + "-that-is-not-there"}).ok());
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
}

TEST(CheckpointFolderOf, AJobThatIsNotThereIsAnsweredByThoseThatAre) {
  const std::string folder = testing::TempDir() + "cluster-with-checkpoints";
  for (const char* of : {"/checkpoints/a", "/jobs/a", "/jobs/b"})
    std::filesystem::create_directories(folder + of);
  const auto find = [&](const std::string& job) {
    return CheckpointFolderOf({.job = job, .dir = folder});
  };
  for (const char* job : {"a", "a@best", "a@40", "a@before-cut"})
    EXPECT_EQ(find(job).value(), folder + "/checkpoints/a") << job;
  EXPECT_EQ(find("im").status(), absl::NotFoundError(absl::StrCat("there is no job im in ", folder,
                                                                  "; there are a, b")));
  EXPECT_EQ(find("b").status(),
            absl::NotFoundError(absl::StrCat("job b has no checkpoint in ", folder)));
  for (const char* job : {"im@", "a@", "a@../../x", "a@4 ", "a@99999999999999999999"}) {
    const absl::Status odd = find(job).status();
    EXPECT_EQ(odd.code(), absl::StatusCode::kInvalidArgument) << odd;
    EXPECT_THAT(std::string(odd.message()), HasSubstr("': after the @ stands a step"));
    EXPECT_EQ(JobOfCluster({.job = job}).status(), odd);
  }
  const absl::Status nowhere = CheckpointFolderOf({.job = "a", .dir = folder + "/none"}).status();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kInvalidArgument) << nowhere;
  EXPECT_THAT(std::string(nowhere.message()), HasSubstr("--dir: there is no folder '"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster::cli
