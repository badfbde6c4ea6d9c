#include "tests/parity/transformer_parity.h"

#include <gtest/gtest.h>

namespace muster::parity {
namespace {

TrainingSpec SmallTraining() {
  TrainingSpec training;
  training.task = "transformer";
  training.parameters = {{"width", 32},         {"heads", 4},        {"encoder_layers", 2},
                         {"decoder_layers", 2}, {"feedforward", 64}, {"source_length", 2},
                         {"target_length", 7},  {"dropout", 0.1}};
  training.data.samples = 61;
  training.batch = 8;
  training.seed = 5;
  training.optimizer.kind = OptimizerKind::kAdam;
  training.optimizer.learning_rate = 0.001;
  return training;
}

TEST(TransformerParity, TwentyStepsFollowLibTorch) {
  const TrainingSpec training = SmallTraining();
  const std::vector<double> ours = OurLosses(training, 20);
  EXPECT_LE(LargestRelativeDifference(ours, LibTorchLosses(training, 20, 0.001)), kTolerance);
  EXPECT_LT(ours.back(), ours.front());
}

TEST(TransformerParity, APlantedErrorOfOnePercentInTheRateIsCaught) {
  const TrainingSpec training = SmallTraining();
  EXPECT_GT(
      LargestRelativeDifference(OurLosses(training, 20), LibTorchLosses(training, 20, 0.00101)),
      kTolerance);
}

}  // namespace
}  // namespace muster::parity
