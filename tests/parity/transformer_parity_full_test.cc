// The default depth, and the benchmark's own sizes: 44,140,544 parameters, minutes on a small
// machine.
#include <gtest/gtest.h>

#include "tests/parity/transformer_parity.h"

namespace muster::parity {
namespace {

TrainingSpec DeepTraining(double width, double heads, double feedforward) {
  TrainingSpec training;
  training.task = "transformer";
  training.parameters = {{"width", width},      {"heads", heads},     {"encoder_layers", 6},
                         {"decoder_layers", 6}, {"source_length", 1}, {"feedforward", feedforward},
                         {"target_length", 20}, {"dropout", 0.1}};
  training.data.samples = 2048;
  training.batch = 32;
  training.seed = 5;
  training.optimizer.kind = OptimizerKind::kAdam;
  training.optimizer.learning_rate = 0.001;
  return training;
}

TEST(TransformerParityFull, TheDefaultDepthFollowsLibTorchForTwentySteps) {
  TrainingSpec training = DeepTraining(128, 4, 512);
  training.batch = 8;
  const std::vector<double> ours = OurLosses(training, 20);
  EXPECT_LE(LargestRelativeDifference(ours, LibTorchLosses(training, 20, 0.001)), kTolerance);
  EXPECT_GT(LargestRelativeDifference(ours, LibTorchLosses(training, 20, 0.00101)), kTolerance);
}

// At this size training is chaotic: a difference in the last bit grows tenfold every two steps. The
// loop whose Adam rounds as ours does is followed for all twenty; torch::optim::Adam, whose
// rounding depends on the processor, for four. Then chaos has made 3e-6 of it on one machine and
// less than 1e-6 on another, and soon as much as a wrong rate makes.
TEST(TransformerParityFull, TheBenchmarksSizesFollowLibTorch) {
  const TrainingSpec training = DeepTraining(512, 8, 2048);
  const double rate = training.optimizer.learning_rate;
  std::vector<double> ours = OurLosses(training, 20);
  const auto written_out = [&](double r) {
    return LargestRelativeDifference(ours,
                                     LibTorchLosses(training, 20, r, AdamBy::kTensorOperations));
  };
  EXPECT_LE(written_out(rate), kTolerance);
  EXPECT_GT(written_out(rate * 1.01), kTolerance);
  constexpr int64_t kBeforeChaos = 4;
  constexpr double kOfAnotherRounding = 2e-5;
  ours.resize(kBeforeChaos);
  const auto of_libtorch = [&](double r) {
    return LargestRelativeDifference(ours, LibTorchLosses(training, kBeforeChaos, r));
  };
  EXPECT_LE(of_libtorch(rate), kOfAnotherRounding);
  EXPECT_GT(of_libtorch(rate * 1.01), kOfAnotherRounding);
}

}  // namespace
}  // namespace muster::parity
