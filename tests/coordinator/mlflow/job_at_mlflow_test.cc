#include "coordinator/mlflow/job_at_mlflow.h"

#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/mlflow/fake_mlflow.h"

namespace muster::coordinator {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

constexpr int64_t kPage = 1'000;

JobJournal JobOf(const std::string& id) {
  JobJournal job;
  job.id = id;
  job.first_start = StartNumber(7);
  job.spec.training.task = "counting";
  job.spec.training.steps = 10'000;
  job.phase = JobPhase::kRunning;
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), ""}};
  return job;
}

double LossAt(int64_t step) { return 100.0 / static_cast<double>(step + 1); }

// One that has so many steps, of which each 50th measures.
absl::StatusOr<HistoryPage> ReadAll(const JobJournal&, Step recorded, int64_t from) {
  HistoryPage page;
  for (int64_t step = from; Step(step) < recorded; ++step) {
    if (static_cast<int64_t>(page.steps.size()) == kPage) {
      page.next = step;
      break;
    }
    HistoryStep of{.step = step, .lineage = 1, .unix_ms = 1'000 + step, .loss = LossAt(step)};
    of.learning_rate = 0.5;
    if (step > 0 && step % 50 == 0) of.validation = {{"top@5", 0.25}, {"loss", LossAt(step)}};
    page.steps.push_back(of);
  }
  return page;
}

class JobAtMlflowTest : public testing::Test {
 protected:
  AskMlflow Ask() {
    return [this](const std::string& path, const std::string& body) -> absl::StatusOr<std::string> {
      if (is_down_) return absl::UnavailableError("nobody listens");
      const FakeMlflow::Answer answer = server_.Ask(path, body);
      if (lose_answer_ > 0 && --lose_answer_ == 0)
        return absl::DeadlineExceededError("no answer in time");
      if (answer.status < 300) return answer.body;
      const MlflowError error = MlflowErrorIn(answer.body);
      if (error.code == "RESOURCE_DOES_NOT_EXIST") return absl::NotFoundError(error.text);
      if (error.code == "RESOURCE_ALREADY_EXISTS") return absl::AlreadyExistsError(error.text);
      if (answer.status >= 500) return absl::UnavailableError("it answers 500");
      return absl::InvalidArgumentError(error.text);
    };
  }
  absl::StatusOr<bool> Follow(JobAtMlflow& run, const JobJournal& job, int64_t recorded) {
    return run.Follow(job, Step(recorded), ReadAll, Ask(), experiments_);
  }
  // Until nothing is left, or it fails.
  absl::Status FollowAll(JobAtMlflow& run, const JobJournal& job, int64_t recorded) {
    while (true) {
      const absl::StatusOr<bool> more = Follow(run, job, recorded);
      if (!more.ok() || !*more) return more.status();
    }
  }
  // Each step of each curve stands once, and none is left out.
  void ExpectWhole(const std::string& id, int64_t steps) {
    const FakeMlflow::Run* run = server_.RunOf(id);
    ASSERT_NE(run, nullptr);
    for (const auto& [key, every] :
         {std::pair("loss", 1), std::pair("learning_rate", 1), std::pair("validation.loss", 50),
          std::pair("validation.top_5", 50)}) {
      std::vector<int64_t> expected, there;
      for (int64_t step = every == 1 ? 0 : every; step < steps; step += every)
        expected.push_back(step);
      const auto points = run->points.find(key);
      if (points != run->points.end())
        for (const auto& [step, value] : points->second) there.push_back(step);
      EXPECT_EQ(there, expected) << key;
    }
    for (const auto& [step, value] : run->points.at("loss")) EXPECT_EQ(value, LossAt(step));
  }

  FakeMlflow server_;
  MlflowExperiments experiments_;
  bool is_down_ = false;
  int lose_answer_ = 0;  // of the request with that number from now on; 0: none
};

TEST_F(JobAtMlflowTest, AJobIsARunWithItsCurvesParametersAndEnd) {
  JobAtMlflow run({"c1", ""});
  JobJournal job = JobOf("count");
  ASSERT_TRUE(FollowAll(run, job, 0).ok());
  EXPECT_EQ(server_.requests, 0) << "there is nothing to be seen before the first step";
  ASSERT_TRUE(FollowAll(run, job, 120).ok());
  const FakeMlflow::Run& there = *server_.RunOf("count");
  EXPECT_EQ(server_.experiments[there.experiment].first, "muster-default");
  EXPECT_EQ(there.name, "count");
  EXPECT_EQ(there.start_time, 1'000);
  EXPECT_EQ(there.status, "RUNNING");
  EXPECT_EQ(there.params.at("task"), "counting");
  EXPECT_EQ(there.params.at("steps"), "10000");
  EXPECT_EQ(there.tags.at("muster.run"), "c1/count/7");
  EXPECT_EQ(there.tags.at("muster.namespace"), "default");
  ExpectWhole("count", 120);
  const int before = server_.requests;
  ASSERT_TRUE(FollowAll(run, job, 120).ok());
  EXPECT_EQ(server_.requests, before) << "nothing is new";
  job.phase = JobPhase::kDone;
  job.ending.digest = "abc";
  ASSERT_TRUE(FollowAll(run, job, 130).ok());
  EXPECT_EQ(there.status, "FINISHED");
  EXPECT_EQ(there.end_time, 1'129);
  EXPECT_EQ(there.tags.at("muster.digest"), "abc");
  EXPECT_EQ(there.tags.at("muster.state"), "done");
  ExpectWhole("count", 130);
}

// Columns of a table have any name.
TEST_F(JobAtMlflowTest, ParametersThatItWouldNotTakeGetAnotherName) {
  JobAtMlflow run({"c1", ""});
  JobJournal job = JobOf("count");
  job.spec.training.task = "mlp";  // which reads data
  job.spec.training.data.format = DataFormat::kCsv;
  job.spec.training.data.types = {{"weight (kg)", TensorType::kFloat32},
                                  {"weight [kg]", TensorType::kFloat64},
                                  {"a//b", TensorType::kInt64}};
  const absl::Status sent = FollowAll(run, job, 20);
  ASSERT_TRUE(sent.ok()) << sent;
  const FakeMlflow::Run& there = *server_.RunOf("count");
  EXPECT_THAT(there.params, Contains(Pair("data.types.weight _kg_", "float32")));
  EXPECT_THAT(there.params, Contains(Pair("data.types.weight _kg__2", "float64")));
  EXPECT_THAT(there.params, Contains(Pair("data.types.a__b", "int64")));
  ExpectWhole("count", 20);
  // Who goes on finds them again.
  JobAtMlflow after({"c1", ""});
  job.spec.training.data.types["weight [kg]"] = TensorType::kInt32;
  ASSERT_TRUE(FollowAll(after, job, 30).ok());
  EXPECT_THAT(there.tags, Contains(Pair("muster.now.data.types.weight _kg__2", "int32")));
  EXPECT_FALSE(there.tags.contains("muster.now.data.types.weight _kg_"));
  ExpectWhole("count", 30);
}

TEST_F(JobAtMlflowTest, ALongHistoryComesInBoundedRequestsAndParts) {
  JobAtMlflow run({"c1", "mine"});
  const absl::StatusOr<bool> first = Follow(run, JobOf("count"), 9'000);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(*first) << "other jobs have their turn before";
  ASSERT_TRUE(FollowAll(run, JobOf("count"), 9'000).ok());
  EXPECT_EQ(server_.experiments.begin()->second.first, "mine");
  ExpectWhole("count", 9'000);
}

TEST_F(JobAtMlflowTest, AnotherCoordinatorGoesOnWithTheSameRun) {
  JobJournal job = JobOf("count");
  JobAtMlflow before({"c1", ""});
  ASSERT_TRUE(FollowAll(before, job, 75).ok());
  experiments_.clear();
  JobAtMlflow after({"c1", ""});
  ASSERT_TRUE(FollowAll(after, job, 160).ok());
  EXPECT_EQ(server_.runs.size(), 1u);
  ExpectWhole("count", 160);
  // Another job of that id, and one of another cluster, are other runs.
  job.first_start = StartNumber(8);
  JobAtMlflow again({"c1", ""});
  ASSERT_TRUE(FollowAll(again, job, 5).ok());
  JobAtMlflow elsewhere({"c2", ""});
  ASSERT_TRUE(FollowAll(elsewhere, job, 5).ok());
  EXPECT_EQ(server_.runs.size(), 3u);
}

// Whatever request it is whose answer gets lost.
TEST_F(JobAtMlflowTest, AfterALostAnswerNothingIsMissingAndNothingTwice) {
  for (int lost = 1; lost <= 9; ++lost) {
    server_ = {};
    experiments_.clear();
    lose_answer_ = lost;
    JobAtMlflow run({"c1", ""});
    JobJournal job = JobOf("count");
    int failures = 0;
    for (const int64_t recorded : {700, 1'400}) {
      while (!FollowAll(run, job, recorded).ok()) ASSERT_LT(++failures, 3) << lost;
    }
    job.phase = JobPhase::kFailed;
    while (!FollowAll(run, job, 1'400).ok()) ASSERT_LT(++failures, 3) << lost;
    EXPECT_EQ(server_.runs.size(), 1u) << lost;
    EXPECT_EQ(server_.RunOf("count")->status, "FAILED") << lost;
    ExpectWhole("count", 1'400);
  }
}

// MLflow that keeps points in files has some of a batch where it is killed.
TEST_F(JobAtMlflowTest, AfterAPartOfABatchTheRestIsSent) {
  for (const int64_t kept : {1, 2, 3, 100, 101, 102, 103, 104, 105}) {
    server_ = {};
    experiments_.clear();
    JobAtMlflow run({"c1", ""});
    server_.keep_points = kept;
    EXPECT_FALSE(FollowAll(run, JobOf("count"), 200).ok());
    server_.keep_points = -1;
    ASSERT_TRUE(FollowAll(run, JobOf("count"), 230).ok());
    ExpectWhole("count", 230);
  }
}

// The bits are the same the second time, and a point cannot be taken back.
TEST_F(JobAtMlflowTest, StepsThatARewindDoesAgainStandOnce) {
  JobAtMlflow run({"c1", ""});
  JobJournal job = JobOf("count");
  ASSERT_TRUE(FollowAll(run, job, 120).ok());
  job.lineages.push_back({LineageNumber(2), LineageNumber(1), Step(80), "a loss"});
  for (const int64_t recorded : {80, 81, 100, 119, 121, 150})
    ASSERT_TRUE(FollowAll(run, job, recorded).ok());
  EXPECT_EQ(server_.RunOf("count")->tags.at("muster.lineage"), "2");
  ExpectWhole("count", 150);
  // A coordinator that begins meanwhile knows no more than the server.
  JobAtMlflow after({"c1", ""});
  job.lineages.push_back({LineageNumber(3), LineageNumber(2), Step(100), "a loss"});
  for (const int64_t recorded : {100, 149, 160}) ASSERT_TRUE(FollowAll(after, job, recorded).ok());
  ExpectWhole("count", 160);
}

TEST_F(JobAtMlflowTest, AJobThatGoesOnLongerRunsAgain) {
  JobAtMlflow run({"c1", ""});
  JobJournal job = JobOf("count");
  job.phase = JobPhase::kDone;
  ASSERT_TRUE(FollowAll(run, job, 20).ok());
  job.phase = JobPhase::kRunning;
  job.spec.training.steps = 30'000;
  ASSERT_TRUE(FollowAll(run, job, 25).ok());
  EXPECT_EQ(server_.RunOf("count")->status, "RUNNING");
  EXPECT_EQ(server_.RunOf("count")->params.at("steps"), "10000") << "it cannot be changed";
  EXPECT_EQ(server_.RunOf("count")->tags.at("muster.now.steps"), "30000");
  for (const auto& [phase, status] :
       {std::pair(JobPhase::kStopped, "KILLED"), std::pair(JobPhase::kRunning, "RUNNING"),
        std::pair(JobPhase::kCancelled, "KILLED")}) {
    job.phase = phase;
    ASSERT_TRUE(FollowAll(run, job, 25).ok());
    EXPECT_EQ(server_.RunOf("count")->status, status);
  }
}

// The row of a last state has the number of a step that a longer job does, or that comes behind
// steps which it does.
TEST_F(JobAtMlflowTest, BehindTheRowOfALastStateEachStepOfEachCurveComesOnce) {
  for (const int64_t delay : {1, 3})
    for (const int64_t end : {100, 120})
      for (const bool is_another : {false, true}) {
        SCOPED_TRACE(absl::StrCat(delay, " ", end, " ", is_another));
        const ReadSteps read = [&](const JobJournal& job, Step recorded, int64_t from) {
          absl::StatusOr<HistoryPage> page = ReadAll(job, recorded, from);
          for (HistoryStep& step : page->steps) {
            const int64_t state = step.step - (delay - 1);
            step.validation.clear();
            if (state > 0 && state % 50 == 0) step.validation = {{"loss", LossAt(state)}};
          }
          if (job.phase == JobPhase::kDone)
            page->steps.push_back({.step = recorded.value() + delay - 1,
                                   .unix_ms = 2'000,
                                   .validation = {{"loss", LossAt(recorded.value())}},
                                   .last_state = recorded.value()});
          return page;
        };
        server_ = {};
        experiments_.clear();
        JobJournal job = JobOf("count");
        JobAtMlflow first({"c1", ""}), another({"c1", ""});
        const auto follow = [&](JobAtMlflow& run, int64_t recorded) {
          ASSERT_TRUE(run.Follow(job, Step(recorded), read, Ask(), experiments_).ok());
        };
        job.phase = JobPhase::kDone;
        follow(first, end);
        follow(first, end);
        job.phase = JobPhase::kRunning;
        for (const int64_t recorded : {end, end + 1, int64_t{160}})
          follow(is_another ? another : first, recorded);
        std::map<std::string, std::vector<int64_t>> there;
        for (const auto& [key, points] : server_.RunOf("count")->points)
          for (const auto& [step, value] : points) there[key].push_back(step);
        std::vector<int64_t> all(160);
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(there["loss"], all);
        const std::set<int64_t> measured = {50, 100, end, 150};
        std::vector<int64_t> bringers;
        for (const int64_t state : measured) bringers.push_back(state + delay - 1);
        EXPECT_EQ(there["validation.loss"], bringers);
      }
}

TEST_F(JobAtMlflowTest, AServerThatIsGoneLosesNothing) {
  JobAtMlflow run({"c1", ""});
  ASSERT_TRUE(FollowAll(run, JobOf("count"), 10).ok());
  is_down_ = true;
  EXPECT_TRUE(absl::IsUnavailable(FollowAll(run, JobOf("count"), 300)));
  is_down_ = false;
  ASSERT_TRUE(FollowAll(run, JobOf("count"), 320).ok());
  ExpectWhole("count", 320);
}

TEST_F(JobAtMlflowTest, WhatPeopleDeleteThereIsNotMadeAgain) {
  JobAtMlflow run({"c1", ""});
  ASSERT_TRUE(FollowAll(run, JobOf("count"), 10).ok());
  server_.RunOf("count")->stage = "deleted";
  EXPECT_FALSE(FollowAll(run, JobOf("count"), 20).ok());
  const absl::Status deleted = FollowAll(run, JobOf("count"), 20);
  EXPECT_TRUE(absl::IsFailedPrecondition(deleted)) << deleted;
  EXPECT_THAT(std::string(deleted.message()), HasSubstr("the run of job count was deleted there"));
  EXPECT_EQ(server_.runs.size(), 1u);
  experiments_.clear();
  server_.experiments.begin()->second.second = "deleted";
  EXPECT_TRUE(absl::IsFailedPrecondition(FollowAll(run, JobOf("count"), 20)));
}

// A database that was made anew.
TEST_F(JobAtMlflowTest, AServerThatKnowsNothingAnyMoreGetsAll) {
  JobAtMlflow run({"c1", ""});
  ASSERT_TRUE(FollowAll(run, JobOf("count"), 10).ok());
  server_ = {};
  for (int tries = 0; !FollowAll(run, JobOf("count"), 20).ok(); ++tries) ASSERT_LT(tries, 3);
  ExpectWhole("count", 20);
}

}  // namespace
}  // namespace muster::coordinator
