// Batch norm over all lanes of a step: beside LibTorch's own over the whole batch, and lanes that
// run together beside each run alone with the same totals.
#include "muster/torch/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/domain/layout.h"
#include "lib/kernels/add.h"
#include "lib/kernels/float_env.h"
#include "muster/torch/module_task.h"
#include "tests/worker/commands/agreeing.h"
#include "tests/worker/tasks/lane_rig.h"
#include "worker/commands/check.h"
#include "worker/runtime/meeting_lanes.h"
#include "worker/torch/flat_module.h"

namespace muster::torch {
namespace {

using testing::HasSubstr;
using worker::FlatMemory;
using worker::MeetingLanes;

constexpr int64_t kSamples = 24, kChannels = 3, kSide = 5, kWidth = 6;

struct Shape {
  bool plain = false;  // LibTorch's own batch norm
  double dropout = 0;
  double shift = 0;  // of the data
  bool affine = true;
  bool tracks = true;
  bool first = false;       // a layer on the data itself, which needs no gradient
  bool by_data = false;     // the order of layers depends on the data
  int64_t not_finite = -1;  // a sample
};

// Convolution, batch norm, a layer, batch norm of rows.
struct NetImpl : ::torch::nn::Module {
  explicit NetImpl(const Shape& of) : shape(of) {
    const auto options = [&](int64_t channels) {
      return ::torch::nn::BatchNormOptions(channels)
          .affine(shape.affine)
          .track_running_stats(shape.tracks);
    };
    if (shape.first) front = register_module("front", SyncBatchNorm(options(kChannels)));
    convolution = register_module(
        "convolution", ::torch::nn::Conv2d(::torch::nn::Conv2dOptions(kChannels, kWidth, 3)));
    if (shape.plain) {
      plain = register_module("norm", ::torch::nn::BatchNorm2d(options(kWidth)));
    } else {
      norm = register_module("norm", SyncBatchNorm(options(kWidth)));
    }
    linear = register_module("linear", ::torch::nn::Linear(kWidth, kWidth));
    if (shape.plain) {
      plain_rows = register_module("rows", ::torch::nn::BatchNorm1d(options(kWidth)));
    } else {
      rows = register_module("rows", SyncBatchNorm(options(kWidth)));
    }
    head = register_module("head", ::torch::nn::Linear(kWidth, 1));
  }
  at::Tensor forward(at::Tensor x) {
    if (front) x = front(x);
    x = convolution(x);
    const bool swapped = shape.by_data && x.detach()[0].sum().item<double>() > 0;
    x = shape.plain ? plain(x) : swapped ? rows(x) : norm(x);
    x = at::dropout(at::silu(x), shape.dropout, is_training()).mean({2, 3});
    x = linear(x);
    x = shape.plain ? plain_rows(x) : swapped ? norm(x) : rows(x);
    return head(at::dropout(x.tanh(), shape.dropout, is_training()));
  }
  const Shape shape;
  ::torch::nn::Conv2d convolution{nullptr};
  SyncBatchNorm front{nullptr}, norm{nullptr}, rows{nullptr};
  ::torch::nn::BatchNorm2d plain{nullptr};
  ::torch::nn::BatchNorm1d plain_rows{nullptr};
  ::torch::nn::Linear linear{nullptr}, head{nullptr};
};
using Net = ::torch::nn::ModuleHolder<NetImpl>;

TaskOptions Options(bool syncs) {
  TaskOptions options;
  options.sync_batch_norm = syncs;
  return options;
}

class NetTask final : public ModuleTask<Net> {
 public:
  NetTask(const Shape& shape, bool syncs)
      : ModuleTask(Options(syncs), [shape] { return Net(shape); }), shape_(shape) {
    Seed(5, 1);
    inputs_ = at::randn({kSamples, kChannels, kSide, kSide}) * 2 + shape.shift;
    labels_ = at::randn({kSamples, 1});
    if (shape.not_finite >= 0) inputs_[shape.not_finite][0][0][0] = std::nan("");
  }
  uint64_t SampleCount() const override { return kSamples; }
  std::string DataHash() const override { return "drawn"; }
  // As a checkpoint would have them: running means that are near, and weights that are not 1.
  void Stir(absl::Span<float> state, const FlatSpace& space) {
    for (const Placed& t : space.tensors)
      for (int64_t i = 0; i < t.count; ++i) {
        float& value = state[static_cast<size_t>(t.offset + i)];
        if (t.spec.name.ends_with("running_mean")) value = 0.1F * static_cast<float>(i - 2);
        if (t.spec.name.ends_with("norm.weight")) value = 1 + 0.1F * static_cast<float>(i);
        if (t.spec.name.ends_with("norm.bias")) value = 0.05F * static_cast<float>(i);
      }
  }

 private:
  Tensors MakeBatch(const at::Tensor& samples) override {
    return {inputs_.index_select(0, samples), labels_.index_select(0, samples)};
  }
  at::Tensor Loss(Net& net, const Tensors& batch) override {
    return at::mse_loss(net(batch[0]), batch[1], at::Reduction::Sum);
  }

  const Shape shape_;
  at::Tensor inputs_, labels_;
};

// Lanes of a step, in memory of their own.
class NetStep final {
 public:
  NetStep(const Shape& shape, bool syncs) : task_(shape, syncs) {
    SetFloatEnvironment();
    layout_ = Layout::Make(static_cast<const Task&>(task_).Tensors(), 4096).value();
    EXPECT_TRUE(task_.Bind(layout_.space()).ok());
    state_ = std::make_unique<FlatMemory>(layout_.elements());
    EXPECT_TRUE(task_.Initialize(3, state_->span()).ok());
    task_.Stir(state_->span(), layout_.space());
  }

  NetTask& task() { return task_; }
  const Layout& layout() const { return layout_; }
  absl::Span<float> state() { return state_->span(); }

  absl::StatusOr<LaneOutput> Run(int32_t lane, int32_t lanes, const worker::Exchange& exchange,
                                 FlatMemory& gradient) {
    std::vector<uint64_t> samples;
    for (auto s = static_cast<uint64_t>(lane); s < kSamples; s += static_cast<uint64_t>(lanes))
      samples.push_back(s);
    gradient.Zero();
    LaneInput input{.lane = lane,
                    .seed = 100 + static_cast<uint64_t>(lane),
                    .samples = samples,
                    .parameters = state_->span()};
    input.exchange = exchange;
    return task_.RunLane(input, {gradient.span(), [](LaneOutput) {}, [](size_t) {}});
  }

  // Which phases a lane meets that runs alone.
  std::vector<size_t> Order() {
    std::vector<size_t> order;
    FlatMemory gradient(layout_.elements());
    const auto alone = [&](size_t phase, absl::Span<const float> terms) {
      order.push_back(phase);
      return absl::StatusOr<absl::Span<const float>>(terms);
    };
    EXPECT_EQ(Run(0, 1, alone, gradient).status(), absl::OkStatus());
    return order;
  }

  // All lanes, each with its gradient, on threads that wait for each other.
  absl::Status Together(int32_t lanes, std::vector<FlatMemory>& gradients,
                        std::vector<size_t> order) {
    const std::vector<TensorSpec> phases = task_.Phases();
    MeetingLanes meeting({phases, std::move(order)}, [] { SetFloatEnvironment(); });
    meeting.Begin(Step(0));
    loss_ = 0;
    totals_.clear();
    gradients.clear();
    for (int32_t l = 0; l < lanes; ++l) gradients.emplace_back(layout_.elements());
    for (int32_t l = 0; l < lanes; ++l)
      meeting.Add(LaneId(l), [&, l](const worker::Exchange& exchange) {
        absl::StatusOr<LaneOutput> output =
            Run(l, lanes, exchange, gradients[static_cast<size_t>(l)]);
        if (output.ok()) loss_ += output->loss;
        return output;
      });
    while (const std::optional<LaneId> next = meeting.Next()) {
      if (absl::Status ran = meeting.Run(*next); !ran.ok()) return ran;
      for (const size_t phase : meeting.phases().order) {
        if (totals_.count(phase) > 0 || !meeting.HaveAllBrought(phase)) continue;
        std::vector<float>& total = totals_[phase];
        total.resize(static_cast<size_t>(phases[phase].Elements()));
        meeting.SumOf(phase, {0, lanes}, absl::MakeSpan(total));
        meeting.Give(phase, total);
      }
    }
    return absl::OkStatus();
  }

  const std::map<size_t, std::vector<float>>& totals() const { return totals_; }
  double loss() const { return loss_; }

 private:
  NetTask task_;
  Layout layout_;
  std::unique_ptr<FlatMemory> state_;
  std::map<size_t, std::vector<float>> totals_;
  double loss_ = 0;
};

// Gradients of all lanes as the step has them: a buffer is lane 0's.
std::vector<float> SumOf(const Layout& layout, const std::vector<FlatMemory>& gradients) {
  std::vector<float> sum(gradients[0].span().begin(), gradients[0].span().end());
  for (const Placed& t : layout.tensors())
    for (int64_t i = t.offset; i < t.offset + t.count && t.spec.kind == TensorKind::kParameter; ++i)
      for (size_t l = 1; l < gradients.size(); ++l)
        sum[static_cast<size_t>(i)] += gradients[l].span()[static_cast<size_t>(i)];
  return sum;
}

void ExpectNear(const Layout& layout, absl::Span<const float> ours, absl::Span<const float> theirs,
                double tolerance) {
  // That of a bias before batch norm is 0, and of rounding as large as what it is added up of.
  double most = 1;
  for (const float value : theirs) most = std::max(most, std::abs(static_cast<double>(value)));
  for (const Placed& t : layout.tensors()) {
    if (t.spec.type != TensorType::kFloat32) {
      EXPECT_EQ(ours[static_cast<size_t>(t.offset)], theirs[static_cast<size_t>(t.offset)]);
      continue;
    }
    for (int64_t i = t.offset; i < t.offset + t.count; ++i)
      EXPECT_NEAR(ours[static_cast<size_t>(i)], theirs[static_cast<size_t>(i)], tolerance * most)
          << t.spec.name << "[" << i - t.offset << "]";
  }
}

TEST(SyncBatchNorm, OfSeveralLanesIsBatchNormOfTheWholeBatch) {
  for (const int32_t lanes : {1, 2, 5}) {
    SCOPED_TRACE(lanes);
    NetStep theirs({.plain = true}, false);
    FlatMemory gradient(theirs.layout().elements());
    const absl::StatusOr<LaneOutput> whole = theirs.Run(0, 1, {}, gradient);
    ASSERT_TRUE(whole.ok()) << whole.status();
    NetStep ours({}, true);
    std::vector<FlatMemory> gradients;
    ASSERT_EQ(ours.Together(lanes, gradients, ours.Order()), absl::OkStatus());
    EXPECT_NEAR(ours.loss(), whole->loss, 1e-5 * whole->loss);
    ASSERT_EQ(ours.layout().Hash(), theirs.layout().Hash()) << "the same tensors";
    ExpectNear(ours.layout(), SumOf(ours.layout(), gradients), gradient.span(), 1e-5);
  }
}

TEST(SyncBatchNorm, LanesThatRunTogetherHaveTheBitsOfLanesAlone) {
  NetStep step({.dropout = 0.3}, true);
  constexpr int32_t kLanes = 4;
  std::vector<FlatMemory> together, again;
  const std::vector<size_t> order = step.Order();
  EXPECT_THAT(order, testing::ElementsAre(0, 2, 3, 1)) << "forward, and backward the other way";
  ASSERT_EQ(step.Together(kLanes, together, order), absl::OkStatus());
  const auto totals = step.totals();
  ASSERT_EQ(step.Together(kLanes, again, order), absl::OkStatus());
  const worker::Exchange known = [&](size_t phase, absl::Span<const float>) {
    return absl::StatusOr<absl::Span<const float>>(totals.at(phase));
  };
  FlatMemory alone(step.layout().elements());
  for (int32_t l = kLanes; l-- > 0;) {
    ASSERT_TRUE(step.Run(l, kLanes, known, alone).ok());
    EXPECT_TRUE(alone.SameBits(together[static_cast<size_t>(l)])) << l;
    EXPECT_TRUE(alone.SameBits(again[static_cast<size_t>(l)])) << l;
  }
}

TEST(SyncBatchNorm, WhereTheJobDoesNotSyncItHasTheBitsOfBatchNorm) {
  for (const bool affine : {true, false})
    for (const bool tracks : {true, false}) {
      NetStep ours({.affine = affine, .tracks = tracks}, false);
      NetStep theirs({.plain = true, .affine = affine, .tracks = tracks}, false);
      EXPECT_EQ(ours.task().syncs(), nullptr);
      ASSERT_EQ(ours.layout().Hash(), theirs.layout().Hash());
      FlatMemory mine(ours.layout().elements()), other(theirs.layout().elements());
      const absl::StatusOr<LaneOutput> a = ours.Run(0, 3, {}, mine),
                                       b = theirs.Run(0, 3, {}, other);
      ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
      EXPECT_EQ(a->loss, b->loss);
      EXPECT_TRUE(mine.SameBits(other));
      const std::vector<uint64_t> samples = {1, 2, 3};
      EXPECT_EQ(ours.task().Evaluate(samples, ours.state())->at(0).sum,
                theirs.task().Evaluate(samples, theirs.state())->at(0).sum);
    }
}

TEST(SyncBatchNorm, NeedsNoWeightsAndNoRunningMeans) {
  for (const bool affine : {true, false}) {
    NetStep theirs({.plain = true, .affine = affine, .tracks = false}, false);
    FlatMemory gradient(theirs.layout().elements());
    ASSERT_TRUE(theirs.Run(0, 1, {}, gradient).ok());
    NetStep ours({.affine = affine, .tracks = false}, true);
    std::vector<FlatMemory> gradients;
    ASSERT_EQ(ours.Together(3, gradients, ours.Order()), absl::OkStatus());
    ExpectNear(ours.layout(), SumOf(ours.layout(), gradients), gradient.span(), 1e-5);
  }
}

// Of data that is far from 0, next to nothing would be left of E[x²] − E[x]².
TEST(SyncBatchNorm, TakesAwayTheRunningMeanBeforeItSquares) {
  NetStep step({.shift = 1000, .first = true}, true);
  for (const Placed& t : step.layout().tensors())
    if (t.spec.name == "front.running_mean")
      for (int64_t i = 0; i < t.count; ++i) step.state()[static_cast<size_t>(t.offset + i)] = 1000;
  const std::vector<size_t> order = step.Order();
  std::vector<FlatMemory> gradients;
  ASSERT_EQ(step.Together(2, gradients, order), absl::OkStatus());
  for (const Placed& t : step.layout().tensors())
    if (t.spec.name == "front.running_var") {
      for (int64_t i = 0; i < t.count; ++i)  // of 0.9 · 1 + 0.1 · 4
        EXPECT_NEAR(gradients[0].span()[static_cast<size_t>(t.offset + i)], 1.3, 0.1);
    }
  // Its input needs no gradient: no lane meets its backward phase.
  EXPECT_THAT(order, testing::ElementsAre(0, 2, 4, 5, 3));
}

TEST(SyncBatchNorm, ARunningMeanThatIsNoNumberSpoilsNoLaterStep) {
  NetStep step({}, true);
  for (const Placed& t : step.layout().tensors())
    if (t.spec.name == "norm.running_mean")
      step.state()[static_cast<size_t>(t.offset)] = std::numeric_limits<float>::quiet_NaN();
  std::vector<FlatMemory> gradients;
  ASSERT_EQ(step.Together(2, gradients, step.Order()), absl::OkStatus());
  EXPECT_TRUE(std::isfinite(step.loss()));
}

TEST(SyncBatchNorm, ASampleThatIsNotFiniteMakesEveryLaneSoAndOneLanesTerms) {
  NetStep step({.not_finite = 4}, true);
  std::vector<FlatMemory> gradients;
  ASSERT_EQ(step.Together(3, gradients, {0, 2, 3, 1}), absl::OkStatus());
  EXPECT_TRUE(std::isnan(step.loss()));
  EXPECT_TRUE(std::isnan(step.totals().at(0)[0]));
  EXPECT_EQ(step.totals().at(0)[2 * kWidth], kSamples * 9) << "the number is a number";
}

TEST(SyncBatchNorm, AnOrderThatDependsOnTheDataIsRefused) {
  NetStep step({.by_data = true}, true);
  std::vector<FlatMemory> gradients;
  const absl::Status ran = step.Together(12, gradients, {0, 2, 3, 1});
  EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ran.message()), HasSubstr("layer rows where norm comes next"));
}

TEST(SyncBatchNorm, ALaneThatIsGivenUpEndsInTheMidstOfBackwardAndTheNextIsWhole) {
  NetStep step({}, true);
  FlatMemory first(step.layout().elements()), second(step.layout().elements());
  ASSERT_TRUE(step.Run(0, 2, {}, first).ok());
  for (const size_t at : {2, 3, 1}) {
    const worker::Exchange exchange = [&](size_t phase, absl::Span<const float> terms) {
      return phase == at ? absl::StatusOr<absl::Span<const float>>(absl::CancelledError("ended"))
                         : absl::StatusOr<absl::Span<const float>>(terms);
    };
    EXPECT_EQ(step.Run(0, 2, exchange, second).status().code(), absl::StatusCode::kCancelled);
    ASSERT_TRUE(step.Run(0, 2, {}, second).ok());
    EXPECT_TRUE(second.SameBits(first));
  }
}

// Two branches: what the first one keeps for its backward pass is still to be used when the second
// one, that of batch norm, is given up.
struct BranchesImpl : ::torch::nn::Module {
  explicit BranchesImpl(bool* the_freed) : freed(the_freed) {
    weight = register_parameter("weight", at::ones({kWidth}));
    norm = register_module("norm", SyncBatchNorm(kWidth));
  }
  at::Tensor forward(const at::Tensor& x) {
    auto memory = std::make_shared<std::vector<float>>(kWidth, 1.0F);
    *freed = false;
    const at::Tensor kept = at::from_blob(
        memory->data(), {kWidth}, [memory, freed = freed](void*) { *freed = true; }, at::kFloat);
    const at::Tensor branch = (weight * kept).sum();
    return branch + norm(x * weight).square().sum();
  }
  bool* const freed;
  at::Tensor weight;
  SyncBatchNorm norm{nullptr};
};
using Branches = ::torch::nn::ModuleHolder<BranchesImpl>;

class BranchesTask final : public ModuleTask<Branches> {
 public:
  explicit BranchesTask(bool* freed, bool asks_for_net = false, bool syncs = true)
      : ModuleTask(Options(syncs), [freed] { return Branches(freed); }),
        asks_for_net_(asks_for_net) {}
  uint64_t SampleCount() const override { return kSamples; }
  std::string DataHash() const override { return "counted"; }

  // A lane of two samples.
  absl::Status Run(const worker::Exchange& exchange) {
    const Layout layout = Layout::Make(static_cast<const Task&>(*this).Tensors(), 4096).value();
    MUSTER_RETURN_IF_ERROR(Bind(layout.space()));
    FlatMemory state(layout.elements()), gradient(layout.elements());
    MUSTER_RETURN_IF_ERROR(Initialize(3, state.span()));
    gradient.Zero();
    const std::vector<uint64_t> samples = {0, 1};
    LaneInput input{.samples = samples, .parameters = state.span()};
    input.exchange = exchange;
    return RunLane(input, {gradient.span(), [](LaneOutput) {}, [](size_t) {}}).status();
  }

 private:
  Tensors MakeBatch(const at::Tensor& samples) override {
    return {samples.to(at::kFloat).unsqueeze(1).expand({samples.size(0), kWidth})};
  }
  at::Tensor Loss(Branches& given, const Tensors& batch) override {
    return (asks_for_net_ ? net() : given)(batch[0]);
  }

  const bool asks_for_net_;
};

TEST(SyncBatchNorm, ALaneThatIsGivenUpInBackwardKeepsNothingOfItsGraph) {
  SetFloatEnvironment();
  bool freed = false;
  BranchesTask task(&freed);
  const worker::Exchange ends = [&](size_t phase, absl::Span<const float> terms) {
    if (phase == 0) return absl::StatusOr<absl::Span<const float>>(terms);
    EXPECT_FALSE(freed) << "the other branch is behind it";
    return absl::StatusOr<absl::Span<const float>>(absl::CancelledError("ended"));
  };
  EXPECT_EQ(task.Run(ends).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(freed);
}

TEST(SyncBatchNorm, ALossThatAsksForNetIsRefusedSinceThatMayBeAnotherLanes) {
  SetFloatEnvironment();
  bool freed = false;
  BranchesTask syncs(&freed, /*asks_for_net=*/true);
  const absl::Status refused = syncs.Run({});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("let it use the net that it is given"));
  BranchesTask alone(&freed, /*asks_for_net=*/true, /*syncs=*/false);
  EXPECT_EQ(alone.Run({}), absl::OkStatus()) << "there it is the same";
}

TEST(SyncBatchNorm, ABatchNormThatWouldNotSyncIsRefusedByItsName) {
  try {
    NetTask task({.plain = true}, true);
    ADD_FAILURE();
  } catch (const TaskError& error) {
    EXPECT_EQ(error.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("sync_batch_norm: 'norm' is a BatchNorm of LibTorch"));
  }
}

TEST(SyncBatchNorm, OneValueAChannelIsAnError) {
  NetStep step({}, true);
  FlatMemory gradient(step.layout().elements());
  const absl::Status ran = step.Run(0, kSamples, {}, gradient).status();
  EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ran.message()), HasSubstr("needs more than one value a channel"));
}

TEST(SyncBatchNorm, WhereTheJobDoesNotSyncALaneOfOneSampleIsAnErrorThatSaysWhatToDo) {
  for (const bool plain : {true, false}) {
    NetStep step({.plain = plain}, false);
    FlatMemory gradient(step.layout().elements());
    const absl::Status ran = step.Run(0, kSamples, {}, gradient).status();
    EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(ran.message()),
                testing::AllOf(HasSubstr("Expected more than 1 value per channel"),
                               HasSubstr("take a larger batch or fewer lanes")));
  }
}

// `muster check --gradients` of such a job: central differences of both lanes' loss.
TEST(SyncBatchNorm, TheGradientOfTwoLanesIsThatOfTheirLoss) {
  NetTask task({}, true);
  JobSpec spec;
  spec.training.task = "net";
  spec.training.sync_batch_norm = true;
  spec.training.lanes = 4;
  spec.training.batch = kSamples;
  spec.training.optimizer.kind = OptimizerKind::kSgd;
  spec.runtime.workers_min = 2;
  spec.runtime.workers_max = 4;
  const absl::StatusOr<worker::CheckReport> report =
      worker::Check(spec, task, nullptr, {.gradients = 40});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->gradients.size(), 40U);
  EXPECT_EQ(report->phases.size(), 4U);
  EXPECT_TRUE(report->lane.is_repeatable);
  EXPECT_GE(worker::AgreeingOf(*report), 30) << "of 40";
}

}  // namespace
}  // namespace muster::torch
