// The benchmark's own sizes: 44,140,544 parameters. Minutes on a small machine.
#include <gtest/gtest.h>

#include "tests/parity/transformer_parity.h"

namespace muster::parity {
namespace {

TEST(TransformerParityFull, TwentyStepsFollowLibTorchAndAnErrorInTheRateIsCaught) {
  Law law;
  law.task = "transformer";
  law.parameters = {{"width", 512},        {"heads", 8},          {"encoder_layers", 6},
                    {"decoder_layers", 6}, {"feedforward", 2048}, {"source_length", 1},
                    {"target_length", 20}, {"dropout", 0.1}};
  law.data.samples = 2048;
  law.batch = 32;
  law.seed = 5;
  law.optimizer.kind = OptimizerKind::kAdam;
  law.optimizer.learning_rate = 0.001;
  const std::vector<double> ours = OurLosses(law, 20);
  EXPECT_LE(LargestRelativeDifference(ours, LibTorchLosses(law, 20, 0.001)), kTolerance);
  EXPECT_GT(LargestRelativeDifference(ours, LibTorchLosses(law, 20, 0.00101)), kTolerance);
}

}  // namespace
}  // namespace muster::parity
