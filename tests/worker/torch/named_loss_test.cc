#include "muster/torch/named_loss.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/tasks/lane_rig.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/row_of_batch.h"

namespace muster::torch {
namespace {

using testing::HasSubstr;

TaskOptions Options(const std::string& loss, double smoothing = 0, double beta = 1, int top_k = 5) {
  TaskOptions options;
  options.parameters = {
      {"loss", loss}, {"label_smoothing", smoothing}, {"loss_beta", beta}, {"top_k", top_k}};
  return options;
}

absl::Status StatusOf(const std::function<void()>& f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const TaskError& error) {
    return error.status();
  }
}

at::Tensor Scores(at::IntArrayRef sizes) {
  worker::SeedTorch(3);
  return at::randn(sizes);
}

// The plain twin of each loss: a number at a time, in double.
double Twin(const std::string& loss, double output, double label, double smoothing, double beta) {
  const double error = std::abs(output - label);
  if (loss == "mse") return error * error;
  if (loss == "l1") return error;
  if (loss == "smooth_l1") return error < beta ? error * error / (2 * beta) : error - beta / 2;
  if (loss == "huber") return error < beta ? error * error / 2 : beta * (error - beta / 2);
  const double wanted = label * (1 - smoothing) + smoothing / 2;
  return std::log1p(std::exp(output)) - wanted * output;
}

TEST(NamedLoss, OfNumbersIsTheSumOfTheirLosses) {
  const at::Tensor output = Scores({4, 3}) * 2, labels = Scores({4, 3}).gt(0).to(at::kLong);
  for (const char* loss : {"mse", "l1", "smooth_l1", "huber", "bce_with_logits"}) {
    const double smoothing = std::string(loss) == "bce_with_logits" ? 0.2 : 0;
    const NamedLoss named(Options(loss, smoothing, 0.5));
    double expected = 0;
    for (int64_t i = 0; i < 12; ++i)
      expected += Twin(loss, output.flatten()[i].item<double>(), labels.flatten()[i].item<double>(),
                       smoothing, 0.5);
    EXPECT_NEAR(named.Sum(output, labels).item<double>(), expected, 1e-4) << loss;
    EXPECT_EQ(named.Terms(labels), 12) << loss;
  }
}

TEST(NamedLoss, OfClassesIsTheSumOfTheirLosses) {
  const at::Tensor scores = Scores({5, 4});
  const at::Tensor labels = at::tensor({0, 3, -100, 1, 3}, at::kLong);
  const at::Tensor logarithms = at::log_softmax(scores, 1);
  for (const double smoothing : {0.0, 0.1}) {
    double expected = 0;
    for (const int64_t row : {0, 1, 3, 4}) {
      const double own = logarithms[row][labels[row].item<int64_t>()].item<double>();
      expected -= (1 - smoothing) * own + smoothing / 4 * logarithms[row].sum().item<double>();
    }
    const NamedLoss named(Options("cross_entropy", smoothing));
    EXPECT_NEAR(named.Sum(scores, labels).item<double>(), expected, 1e-5);
    EXPECT_EQ(named.Terms(labels), 4);
    if (smoothing == 0) {
      EXPECT_NEAR(NamedLoss(Options("nll")).Sum(logarithms, labels).item<double>(), expected, 1e-5);
    }
  }
}

TEST(NamedLoss, ClassesMayStandAtEachOfSomePositions) {
  const at::Tensor scores = Scores({2, 4, 3});
  const at::Tensor labels = at::tensor({0, 3, 1, 1, 2, 3}, at::kLong).view({2, 3});
  const NamedLoss named(Options("cross_entropy"));
  const at::Tensor rows = scores.transpose(1, 2).reshape({6, 4});
  EXPECT_NEAR(named.Sum(scores, labels).item<double>(),
              named.Sum(rows, labels.flatten()).item<double>(), 1e-5);
  EXPECT_EQ(named.Measure(scores, labels)[1].sum, named.Measure(rows, labels.flatten())[1].sum);
}

// With shapes that are broadcast, each output would be compared with each label.
TEST(NamedLoss, DimensionsOfOneDoNotCount) {
  const at::Tensor output = Scores({6, 1}), labels = at::arange(6);
  const NamedLoss named(Options("mse"));
  EXPECT_EQ(named.Sum(output, labels).item<double>(),
            named.Sum(output.flatten(), labels).item<double>());
}

TEST(NamedLoss, MeasuresHowOftenTheFirstAndTheFirstFiveAreRight) {
  at::Tensor scores = at::arange(6, at::kFloat).neg().repeat({4, 1});  // the first class is highest
  scores[3][5] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor labels = at::tensor({0, 4, 5, -100}, at::kLong);
  const auto sums = NamedLoss(Options("cross_entropy")).Measure(scores, labels);
  ASSERT_EQ(sums.size(), NamedLoss(Options("cross_entropy")).Metrics().size());
  EXPECT_EQ(sums[0].weight, 3);
  EXPECT_EQ(sums[1].sum, 1);
  EXPECT_EQ(sums[2].sum, 2);
  const auto no_numbers = NamedLoss(Options("cross_entropy"))
                              .Measure(at::full({2, 6}, std::nan("")), at::tensor({1, 2}));
  EXPECT_EQ(no_numbers[2].sum, 0);
}

TEST(NamedLoss, MeasuresAsManyOfTheHighestScoresAsTheJobSays) {
  const at::Tensor scores = at::arange(6, at::kFloat).neg().repeat({4, 1});
  const at::Tensor labels = at::tensor({0, 1, 4, -100}, at::kLong);
  const struct {
    int top_k;
    const char* name;
    double right;
  } cases[] = {{1, "top1_accuracy", 1},
               {2, "top2_accuracy", 2},
               {4, "top4_accuracy", 2},
               {5, "top5_accuracy", 3},
               {1000, "top1000_accuracy", 3}};
  for (const auto& of : cases)
    for (const char* loss : {"cross_entropy", "nll"}) {
      const NamedLoss named(Options(loss, 0, 1, of.top_k));
      EXPECT_EQ(
          named.Metrics(),
          (std::vector<TaskMetric>{
              {"loss"}, {"accuracy"}, {of.name}, {"perplexity", TaskMetricKind::kExpOfMean}}));
      EXPECT_EQ(named.Measure(scores, labels)[2].sum, of.right) << of.name;
    }
}

TEST(NamedLoss, PerplexityIsOfTheLossWithoutSmoothing) {
  // Of four equal scores the perplexity is four.
  const at::Tensor even = at::zeros({3, 4}), labels = at::tensor({0, 3, -100}, at::kLong);
  const auto of_even = NamedLoss(Options("cross_entropy", 0.3)).Measure(even, labels);
  EXPECT_EQ(of_even[3].weight, 2);
  EXPECT_NEAR(std::exp(of_even[3].sum / of_even[3].weight), 4, 1e-5);
  const at::Tensor scores = Scores({3, 4});
  const NamedLoss smoothed(Options("cross_entropy", 0.3)), plain(Options("cross_entropy"));
  const double expected = plain.Sum(scores, labels).item<double>();
  EXPECT_EQ(smoothed.Measure(scores, labels)[3].sum, expected);
  EXPECT_NE(smoothed.Measure(scores, labels)[0].sum, expected);
  EXPECT_EQ(plain.Measure(scores, labels)[3].sum, expected);
  const auto of_nll = NamedLoss(Options("nll")).Measure(at::log_softmax(scores, 1), labels);
  EXPECT_NEAR(of_nll[3].sum, expected, 1e-5);
  EXPECT_EQ(of_nll[3].sum, of_nll[0].sum);
}

TEST(NamedLoss, MeasuresErrorsAndSides) {
  const at::Tensor output = at::tensor({1.0F, -2.0F, 3.0F});
  const auto errors = NamedLoss(Options("mse")).Measure(output, at::tensor({0.0F, 0.0F, 0.0F}));
  EXPECT_EQ(errors[0].sum, 14);
  EXPECT_EQ(errors[1].sum, 6);
  const auto sides = NamedLoss(Options("bce_with_logits")).Measure(output, at::tensor({1, 1, 1}));
  EXPECT_EQ(sides[1].sum, 2);
}

TEST(NamedLoss, CountsScoresOfBothClasses) {
  const NamedLoss named(Options("bce_with_logits"));
  EXPECT_EQ(named.Metrics(),
            (std::vector<TaskMetric>{{"loss"}, {"accuracy"}, {"auc", TaskMetricKind::kAuc}}));
  const at::Tensor output = at::tensor({0.1F, -3.0F, 0.2F, 99.0F}).reshape({2, 2});
  const at::Tensor labels = at::tensor({0, 1, 1, 0}).reshape({2, 2});
  const auto auc = named.Measure(output, labels)[2];
  std::vector<double> expected(2 * kScoreBins);
  ++expected[ScoreBin(0.1)];
  ++expected[ScoreBin(99)];
  ++expected[kScoreBins + ScoreBin(0.2)];
  ++expected[kScoreBins + ScoreBin(-3)];
  EXPECT_EQ(auc.counts, expected);
  EXPECT_EQ(auc.sum, 0);
  const auto none = named.Measure(at::full({2}, std::nan("")), at::tensor({0, 1}))[2];
  EXPECT_TRUE(std::isnan(none.counts[0]));
  EXPECT_TRUE(NamedLoss(Options("mse")).Measure(output, labels)[1].counts.empty());
}

TEST(NamedLoss, RefusesWhatDoesNotFitWithOneSentence) {
  const auto sum = [](const std::string& loss, const at::Tensor& output, const at::Tensor& labels) {
    return StatusOf([&] { NamedLoss(Options(loss)).Sum(output, labels); });
  };
  const struct {
    absl::Status status;
    absl::StatusCode code;
    const char* says;
  } cases[] = {
      {sum("mse", Scores({4, 2}), at::arange(4)), absl::StatusCode::kFailedPrecondition,
       "loss mse needs an output of the label's shape; the output is 2, the label one number"},
      {sum("cross_entropy", Scores({4}), at::arange(4)), absl::StatusCode::kFailedPrecondition,
       "needs a score for each class"},
      {sum("cross_entropy", Scores({4, 9}), Scores({4})), absl::StatusCode::kFailedPrecondition,
       "needs labels that are numbers of classes, not Float"},
      {sum("cross_entropy", Scores({4, 3}), at::arange(4)), absl::StatusCode::kDataLoss,
       "label 3 is no class of a model that tells 3 apart"},
      {sum("nll", Scores({4, 3}), at::arange(4) - 1), absl::StatusCode::kDataLoss,
       "label -1 is no"},
      {sum("mse", Scores({5, 2}), at::zeros({4, 2})), absl::StatusCode::kFailedPrecondition,
       "must have reals for each of 4 samples; it is a tensor of Float of 5 × 2"},
      {StatusOf([] { NamedLoss named(Options("mse", 0.1)); }),
       absl::StatusCode::kFailedPrecondition, "parameters.label_smoothing: loss mse has none"},
      {StatusOf([] {
         NamedLoss(Options("mse"))
             .Try([]() -> at::Tensor { return at::ones({2}).view({3}); }, at::ones({2}));
       }),
       absl::StatusCode::kFailedPrecondition, "the model fails on the first samples: "},
  };
  for (const auto& bad : cases) {
    EXPECT_EQ(bad.status.code(), bad.code) << bad.status;
    EXPECT_THAT(std::string(bad.status.message()), HasSubstr(bad.says));
  }
}

TEST(NamedLoss, ChecksShapesBeforeThereIsAModel) {
  const DataField number{"label"}, pair{"label", TensorType::kFloat32, {2}};
  const DataField classes{"label", TensorType::kInt64, {}};
  const NamedLoss mse(Options("mse")), entropy(Options("cross_entropy"));
  EXPECT_TRUE(mse.Check({1}, number).ok());
  EXPECT_TRUE(mse.Check({2, 1}, pair).ok());
  EXPECT_FALSE(mse.Check({3}, pair).ok());
  EXPECT_TRUE(entropy.Check({10}, classes).ok());
  EXPECT_FALSE(entropy.Check({}, classes).ok());
  EXPECT_FALSE(entropy.Check({10, 7}, classes).ok());
  EXPECT_THAT(std::string(entropy.Check({10}, number).message()), HasSubstr("no whole numbers"));
}

// A task that is a module alone.
struct Line final : NamedLossTask<::torch::nn::Linear> {
  explicit Line(const TaskOptions& options, int64_t outputs = 1)
      : NamedLossTask(options, [=](const DataSet& set) {
          return ::torch::nn::Linear(set.Fields()[0].shape[0], outputs);
        }) {
    TryOutput();
  }
  at::Tensor Output(::torch::nn::Linear& net, const Tensors& inputs) override {
    return net(inputs[0]);
  }
};

class NamedLossTaskTest : public testing::Test {
 protected:
  NamedLossTaskTest() : file_(absl::StrCat(testing::TempDir(), "named_loss-", getpid(), ".csv")) {
    std::ofstream(file_) << "a,b,y\n1,2,3\n4,5,9\n7,8,15\n";
  }
  ~NamedLossTaskTest() override { std::filesystem::remove(file_); }
  TaskOptions With(const std::string& loss, const std::string& label) const {
    TaskOptions options = Options(loss);
    options.data.paths = {file_};
    options.data.format = DataFormat::kCsv;
    options.data.columns = {"a", "b"};
    options.data.label = label;
    return options;
  }
  const std::string file_;
};

TEST_F(NamedLossTaskTest, RunsLanesAndMeasures) {
  worker::LaneRig rig(std::make_unique<Line>(With("l1", "y")));
  worker::FlatMemory gradient = rig.Memory();
  const auto lane = rig.Run({0, 1, 2}, 5, gradient);
  ASSERT_TRUE(lane.ok()) << lane.status();
  EXPECT_EQ(lane->weight, 3);
  const std::vector<uint64_t> all = {0, 1, 2};
  const auto measured = rig.task().evaluates()->Evaluate(all, rig.parameters().span());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ((*measured)[0].sum, lane->loss);
  EXPECT_EQ((*measured)[1].sum, lane->loss);
}

TEST_F(NamedLossTaskTest, ALabelThatIsMissingOrDoesNotFitIsTold) {
  EXPECT_THAT(std::string(StatusOf([&] { Line task(With("mse", "")); }).message()),
              HasSubstr("data.label: is missing"));
  TaskOptions stream = Options("mse");
  stream.data.format = DataFormat::kStream;
  stream.data.fields = {{"x", TensorType::kFloat32, {2}}, {"y", TensorType::kFloat32, {}}};
  EXPECT_THAT(std::string(StatusOf([&] { Line task(stream); }).message()),
              HasSubstr("data.label: is missing"));
  EXPECT_THAT(std::string(StatusOf([&] { Line task(With("mse", "y"), 2); }).message()),
              HasSubstr("the output is 2, the label one number"));
}

TEST(RowOfBatch, IsTheSampleThatStandsThere) {
  const absl::Status about = worker::AboutRow(absl::DataLossError("bad"), 2, 4);
  using Ids = std::vector<uint64_t>;
  using Positions = std::vector<uint32_t>;
  EXPECT_EQ(worker::SampleOf(about, Ids{10, 11, 12, 13}, {}), 12u);
  EXPECT_EQ(worker::SampleOf(about, Ids{10, 11, 12, 13, 14, 15}, Positions{0, 3}), 14u);
  EXPECT_EQ(worker::SampleOf(about, Ids{10, 11, 12, 13, 14, 15}, Positions{4, 5}), 12u);
  EXPECT_EQ(worker::SampleOf(about, Ids{10, 11, 12}, {}), std::nullopt) << "other rows";
  EXPECT_EQ(worker::SampleOf(absl::DataLossError("bad"), Ids{1}, {}), std::nullopt);
  const absl::Status beyond = worker::AboutRow(absl::DataLossError("bad"), 1, 1);
  EXPECT_EQ(worker::SampleOf(beyond, Ids{1}, {}), std::nullopt);
}

}  // namespace
}  // namespace muster::torch
