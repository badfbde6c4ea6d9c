#include "coordinator/mlflow/messages.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(MlflowMessages, ARunIsReadAsServersOfSeveralVersionsTellIt) {
  const auto run = FoundRunIn(R"({"runs":[{"info":{"run_id":"r","status":"RUNNING",
      "lifecycle_stage":"active","start_time":"12"},"data":{
      "metrics":[{"key":"loss","value":0.5,"timestamp":"5","step":"40"},
                 {"key":"rate","value":0.5,"timestamp":5,"step":7},{"key":"old","value":1}],
      "params":[{"key":"a","value":"1"},{"key":"b"}],"tags":[{"key":"t","value":"x"}]}}]})");
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(run->has_value());
  EXPECT_EQ((*run)->id, "r");
  EXPECT_FALSE((*run)->is_deleted);
  EXPECT_THAT((*run)->newest, ElementsAre(Pair("loss", 40), Pair("old", 0), Pair("rate", 7)));
  EXPECT_THAT((*run)->params, ElementsAre(Pair("a", "1"), Pair("b", "")));
  EXPECT_THAT((*run)->tags, ElementsAre(Pair("t", "x")));
  EXPECT_TRUE((*FoundRunIn(R"({"runs":[{"info":{"run_id":"r","lifecycle_stage":"deleted"}}]})"))
                  ->is_deleted);
}

TEST(MlflowMessages, WhatIsNoAnswerOfMlflowIsAnError) {
  EXPECT_EQ(*FoundRunIn("{}"), std::nullopt);
  EXPECT_EQ(*FoundRunIn(R"({"runs":7})"), std::nullopt);
  for (const char* text : {"", "<html>", "[]", "7", "{\"a\":"}) {
    EXPECT_TRUE(absl::IsDataLoss(FoundRunIn(text).status())) << text;
    EXPECT_TRUE(absl::IsDataLoss(CreatedRunIn(text).status())) << text;
    EXPECT_TRUE(absl::IsDataLoss(CheckTaken(text))) << text;
    EXPECT_TRUE(absl::IsDataLoss(ExperimentIn(text).status())) << text;
    EXPECT_TRUE(absl::IsDataLoss(CreatedExperimentIn(text).status())) << text;
    EXPECT_EQ(MlflowErrorIn(text).text, "") << text;
  }
  for (const char* text : {"{}", R"({"run":7})", R"({"run":{"info":[]}})", R"({"experiment":{}})",
                           R"({"experiment_id":7})", R"({"runs":[{"info":{"run_id":7}}]})"}) {
    EXPECT_FALSE(CreatedRunIn(text).ok()) << text;
    EXPECT_FALSE(ExperimentIn(text).ok()) << text;
    EXPECT_FALSE(CreatedExperimentIn(text).ok()) << text;
  }
  EXPECT_TRUE(absl::IsDataLoss(FoundRunIn(R"({"runs":[{"info":{"run_id":7}}]})").status()));
  const MlflowError error = MlflowErrorIn("{\"error_code\":\"X\",\"message\":\"a\\u001b[1m" +
                                          std::string(5'000, 'y') + "\"}");
  EXPECT_EQ(error.code, "X");
  EXPECT_THAT(error.text, HasSubstr("X: a\\x1b[1m"));
  EXPECT_LT(error.text.size(), 400u);
}

TEST(MlflowMessages, PointsBehindWhatIsThereAreInTheOrderOfSteps) {
  std::vector<HistoryStep> steps;
  for (int64_t step = 4; step < 7; ++step) {
    HistoryStep of{.step = step, .unix_ms = 10 * step, .loss = static_cast<double>(step)};
    if (step == 5) of.loss.reset();  // not finite
    if (step == 5) of.validation = {{"top@5", 0.5}, {"nan", std::nullopt}};
    steps.push_back(of);
  }
  EXPECT_THAT(PointsBehind(steps, {}), ElementsAre(MlflowPoint{"loss", 4, 40, 4},
                                                   MlflowPoint{"validation.top_5", 0.5, 50, 5},
                                                   MlflowPoint{"loss", 6, 60, 6}));
  EXPECT_THAT(PointsBehind(steps, {{"loss", 4}, {"validation.top_5", 5}}),
              ElementsAre(MlflowPoint{"loss", 6, 60, 6}));
  EXPECT_EQ(FirstStepToRead({}), 0);
  EXPECT_EQ(FirstStepToRead({{"loss", 4}, {"validation.top_5", 3}}), 4);
  EXPECT_EQ(FirstStepToRead({{"loss", 4}, {"validation.top_5", 7}}), 4) << "of a last state";
  EXPECT_EQ(FirstStepToRead({{"validation.top_5", 7}}), 0) << "of a job that was adopted there";
}

TEST(MlflowMessages, NamesAreThoseThatItTakesAndStayDifferent) {
  EXPECT_THAT(NamesForMlflow({"steps", "data.types.weight (kg)", "data.types.weight [kg]",
                              "data.types.weight _kg_", "data.types.weight _kg__2"}),
              ElementsAre("steps", "data.types.weight _kg__3", "data.types.weight _kg__4",
                          "data.types.weight _kg_", "data.types.weight _kg__2"))
      << "what it takes as it is keeps its name";
  EXPECT_THAT(NamesForMlflow({"a/b", "a//b", "a/../b", "a/", "a/./b", "\xc3\xa4", "a__b"}),
              ElementsAre("a/b", "a__b_2", "a_.._b", "a_", "a_._b", "__", "a__b"));
  const std::vector<std::string> cut =
      NamesForMlflow({std::string(300, 'x'), std::string(301, 'x'), std::string(302, 'x')});
  EXPECT_EQ((std::set<std::string>(cut.begin(), cut.end()).size()), 3u);
  for (const std::string& name : cut) EXPECT_LE(name.size() + 11, 250u) << name;
}

TEST(MlflowMessages, BodiesHaveWhatTheInterfaceNames) {
  const Json batch = Json::parse(BatchBody("r", std::vector<MlflowPoint>{{"loss", 0.1, 7, 3}},
                                           {{"a", "\xff"}}, {{"t", "x\"y"}}));
  EXPECT_EQ(batch["run_id"], "r");
  EXPECT_EQ(batch["metrics"],
            Json::parse(R"([{"key":"loss","value":0.1,"timestamp":7,"step":3}])"));
  EXPECT_EQ(batch["tags"], Json::parse(R"([{"key":"t","value":"x\"y"}])"));
  const Json search = Json::parse(SearchRunsBody("4", "c/job/1"));
  EXPECT_EQ(search["experiment_ids"], Json::parse(R"(["4"])"));
  EXPECT_EQ(search["filter"], "tags.`muster.run` = 'c/job/1'");
  EXPECT_EQ(search["run_view_type"], "ALL");
  EXPECT_EQ(Json::parse(UpdateRunBody("r", "RUNNING", 0)).contains("end_time"), false);
  EXPECT_EQ(MlflowFindExperiment("a b/ä"),
            "/api/2.0/mlflow/experiments/get-by-name?experiment_name=a%20b%2F%C3%A4");
}

}  // namespace
}  // namespace muster::coordinator
