#include "tests/parity/transformer_parity.h"

#include <gtest/gtest.h>

namespace muster::parity {
namespace {

Law SmallLaw() {
  Law law;
  law.task = "transformer";
  law.parameters = {{"width", 32},         {"heads", 4},        {"encoder_layers", 2},
                    {"decoder_layers", 2}, {"feedforward", 64}, {"source_length", 2},
                    {"target_length", 7},  {"dropout", 0.1}};
  law.data.samples = 61;
  law.batch = 8;
  law.seed = 5;
  law.optimizer.kind = OptimizerKind::kAdam;
  law.optimizer.learning_rate = 0.001;
  return law;
}

TEST(TransformerParity, TwentyStepsFollowLibTorch) {
  const Law law = SmallLaw();
  const std::vector<double> ours = OurLosses(law, 20);
  EXPECT_LE(LargestRelativeDifference(ours, LibTorchLosses(law, 20, 0.001)), kTolerance);
  EXPECT_LT(ours.back(), ours.front());
}

TEST(TransformerParity, APlantedErrorOfOnePercentInTheRateIsCaught) {
  const Law law = SmallLaw();
  EXPECT_GT(LargestRelativeDifference(OurLosses(law, 20), LibTorchLosses(law, 20, 0.00101)),
            kTolerance);
}

}  // namespace
}  // namespace muster::parity
