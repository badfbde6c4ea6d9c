#include "worker/commands/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/task/counting.h"
#include "worker/commands/evaluate_text.h"

namespace muster::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Each sample's loss is its id, and so is its score; those that three divides are positive.
class Ids final : public Task, public Evaluates {
 public:
  std::vector<TensorSpec> Tensors() const override { return {{"a", {1}}}; }
  uint64_t SampleCount() const override { return 11; }
  std::string DataHash() const override { return "ids"; }
  absl::Status Bind(const FlatSpace&) override { return absl::OkStatus(); }
  absl::Status Initialize(uint64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput&, GradientSink) override {
    return absl::InternalError("no lane is run");
  }
  std::vector<TaskMetric> Metrics() const override {
    return {{"loss"},
            {"perplexity", TaskMetricKind::kExpOfMean},
            {"nothing"},
            {"auc", TaskMetricKind::kAuc}};
  }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float>) override {
    batches.emplace_back(samples.begin(), samples.end());
    if (batches.size() == fails_at) return absl::DataLossError("ids.csv: broken");
    TaskMetricSum loss;
    for (const uint64_t id : samples) loss.sum += static_cast<double>(id);
    loss.weight = static_cast<double>(samples.size());
    TaskMetricSum auc;
    auc.counts.resize(2 * kScoreBins);
    for (const uint64_t id : samples)
      ++auc.counts[ScoreBin(static_cast<double>(id)) + (id % 3 == 0 ? kScoreBins : 0)];
    return std::vector<TaskMetricSum>{loss, loss, {}, auc};
  }

  std::vector<std::vector<uint64_t>> batches;
  size_t fails_at = 0;
};

TEST(EvaluateTest, EachSampleOnceInOrderAndTheLastBatchIsShort) {
  Ids task;
  std::vector<uint64_t> told;
  const auto measured = EvaluateAll(task, {}, 4, [&](uint64_t done) { told.push_back(done); });
  ASSERT_EQ(measured.status(), absl::OkStatus());
  EXPECT_THAT(task.batches,
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9, 10)));
  EXPECT_THAT(told, ElementsAre(4, 8, 11));
  EXPECT_EQ((*measured)[0].value, 5.0);
  EXPECT_EQ((*measured)[1].name, "perplexity");
  EXPECT_EQ((*measured)[1].value, std::exp(5.0));
  EXPECT_TRUE(std::isnan((*measured)[2].value)) << "nothing was weighed";
  EXPECT_EQ((*measured)[3].value, 12.0 / 28) << "pairs of two batches, too";
}

TEST(EvaluateTest, AnErrorEndsItAndATaskWithoutTheAbilityIsNamed) {
  Ids task;
  task.fails_at = 2;
  EXPECT_EQ(EvaluateAll(task, {}, 4, [](uint64_t) {}).status().code(), absl::StatusCode::kDataLoss);
  TrainingSpec training;
  training.data.samples = 3;
  EXPECT_EQ(EvaluateAll(*MakeCounting(training), {}, 1, [](uint64_t) {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(EvaluateTest, PeopleAndProgramsReadTheSame) {
  const EvaluatedModel evaluated{.job = "job-1",
                                 .task = "ids",
                                 .step = 50,
                                 .samples = 11,
                                 .data_hash = "ids",
                                 .measured = {{"loss", 5}, {"accuracy", std::nan("")}}};
  EXPECT_THAT(EvaluationAsText(evaluated), HasSubstr("step 50, on 11 samples"));
  EXPECT_THAT(EvaluationAsText(evaluated), HasSubstr("loss         5\n"));
  const EvaluatedModel wide{.measured = {{"loss", 5}, {"mean_absolute_error", 2}}};
  EXPECT_THAT(EvaluationAsText(wide), HasSubstr("loss                5\nmean_absolute_error 2\n"));
  const auto json = nlohmann::json::parse(EvaluationAsJson(evaluated));
  EXPECT_EQ(json["metrics"]["loss"], 5);
  EXPECT_EQ(json["average"], false);
  const EvaluatedModel average{.job = "job-1", .step = 50, .average = true};
  EXPECT_THAT(EvaluationAsText(average), HasSubstr("step 50, moving average, on 0 samples"));
  EXPECT_EQ(nlohmann::json::parse(EvaluationAsJson(average))["average"], true);
  EXPECT_TRUE(json["metrics"]["accuracy"].is_null());
  EXPECT_EQ(nlohmann::json::parse(GeneratedAsJson("a", "b\xff"))["text"], "b\ufffd");
}

}  // namespace
}  // namespace muster::worker
