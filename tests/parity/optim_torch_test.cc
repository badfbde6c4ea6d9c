// Our optimizers beside LibTorch's own, on the same gradients. Ours round after each operation,
// LibTorch's fuse some, so the last bits differ.
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "lib/optim/optim.h"

namespace muster {
namespace {

constexpr int64_t kSize = 1009;
constexpr int64_t kSteps = 50;
constexpr double kTolerance = 1e-6;

std::unique_ptr<torch::optim::Optimizer> TorchOptimizer(const OptimizerSpec& o, torch::Tensor p) {
  const std::vector<torch::Tensor> parameters = {std::move(p)};
  switch (o.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<torch::optim::SGD>(
          parameters, torch::optim::SGDOptions(o.learning_rate).weight_decay(o.weight_decay));
    case OptimizerKind::kMomentum:
      return std::make_unique<torch::optim::SGD>(parameters,
                                                 torch::optim::SGDOptions(o.learning_rate)
                                                     .momentum(o.momentum)
                                                     .nesterov(o.nesterov)
                                                     .weight_decay(o.weight_decay));
    case OptimizerKind::kAdam:
      return std::make_unique<torch::optim::Adam>(parameters,
                                                  torch::optim::AdamOptions(o.learning_rate)
                                                      .betas({o.beta1, o.beta2})
                                                      .eps(o.epsilon)
                                                      .weight_decay(o.weight_decay));
    case OptimizerKind::kAdamW:
      return std::make_unique<torch::optim::AdamW>(parameters,
                                                   torch::optim::AdamWOptions(o.learning_rate)
                                                       .betas({o.beta1, o.beta2})
                                                       .eps(o.epsilon)
                                                       .weight_decay(o.weight_decay));
    case OptimizerKind::kRmsprop:
      return std::make_unique<torch::optim::RMSprop>(parameters,
                                                     torch::optim::RMSpropOptions(o.learning_rate)
                                                         .alpha(o.alpha)
                                                         .eps(o.epsilon)
                                                         .weight_decay(o.weight_decay));
    case OptimizerKind::kAdagrad:
      return std::make_unique<torch::optim::Adagrad>(parameters,
                                                     torch::optim::AdagradOptions(o.learning_rate)
                                                         .eps(o.epsilon)
                                                         .weight_decay(o.weight_decay));
    case OptimizerKind::kLamb:
    case OptimizerKind::kLars: break;
  }
  return nullptr;
}

std::vector<float> NormalFloats(std::mt19937_64& random, double mean) {
  std::normal_distribution<double> normal(mean, 1);
  std::vector<float> values(kSize);
  for (float& v : values) v = static_cast<float>(normal(random));
  return values;
}

// The largest distance of an element after kSteps steps, relative to its size and at least 1. Ours
// learns with `rate_error` times the learning rate.
double LargestDistance(const OptimizerSpec& spec, double rate_error) {
  std::mt19937_64 random(42);
  std::vector<float> ours = NormalFloats(random, 3);
  torch::Tensor theirs = torch::tensor(ours);
  const auto optimizer = TorchOptimizer(spec, theirs);
  std::array<std::vector<float>, kMaxSlots> slots = {std::vector<float>(kSize),
                                                     std::vector<float>(kSize)};
  const Slots views = {absl::MakeSpan(slots[0]), absl::MakeSpan(slots[1])};
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::vector<float> gradient = NormalFloats(random, 0);
    theirs.mutable_grad() = torch::tensor(gradient);
    optimizer->step();
    ApplyUpdate(spec, step, spec.learning_rate * rate_error, gradient, ours, absl::MakeSpan(ours),
                views);
  }
  double largest = 0;
  const float* expected = theirs.data_ptr<float>();
  for (size_t i = 0; i < ours.size(); ++i) {
    const float scale = std::max(std::abs(expected[i]), 1.0f);
    largest = std::max<double>(largest, std::abs(ours[i] - expected[i]) / scale);
  }
  return largest;
}

struct NamedSpec {
  std::string name;
  OptimizerSpec spec;
};

std::ostream& operator<<(std::ostream& out, const NamedSpec& named) { return out << named.name; }

// Each with weight decay and without.
std::vector<NamedSpec> Specs() {
  std::vector<NamedSpec> specs = {
      {"Sgd", {.kind = OptimizerKind::kSgd}},
      {"Momentum", {.kind = OptimizerKind::kMomentum}},
      {"Nesterov", {.kind = OptimizerKind::kMomentum, .nesterov = true}},
      {"Adam", {.kind = OptimizerKind::kAdam}},
      {"AdamW", {.kind = OptimizerKind::kAdamW}},
      {"Rmsprop", {.kind = OptimizerKind::kRmsprop}},
      {"Adagrad", {.kind = OptimizerKind::kAdagrad}},
  };
  for (size_t s = 0, count = specs.size(); s < count; ++s) {
    specs.push_back({specs[s].name + "WithDecay", specs[s].spec});
    specs.back().spec.weight_decay = 0.02;
  }
  return specs;
}

class OptimTorch : public testing::TestWithParam<NamedSpec> {};

TEST_P(OptimTorch, AgreesOverFiftySteps) {
  EXPECT_LT(LargestDistance(GetParam().spec, 1), kTolerance);
}

// The comparison is sharp enough to catch a learning rate that is off by a thousandth.
TEST_P(OptimTorch, AWrongLearningRateIsCaught) {
  EXPECT_GT(LargestDistance(GetParam().spec, 1.001), 10 * kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimTorch, testing::ValuesIn(Specs()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace muster
