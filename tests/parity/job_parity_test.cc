// The losses that a real job tells, through the real programs, beside a plain LibTorch loop.
#include <gtest/gtest.h>

#include "lib/wire/job_codec.h"
#include "tests/integration/cluster.h"
#include "tests/parity/transformer_parity.h"

namespace muster::parity {
namespace {

constexpr int64_t kSteps = 20;
constexpr double kRate = 0.001;

// One lane, one worker; 61 samples in batches of 8 leave a short step at the end of each epoch.
constexpr char kSpec[] =
    "name: parity\n"
    "task: transformer\n"
    "parameters: {width: 32, heads: 4, encoder_layers: 2, decoder_layers: 2, feedforward: 64, "
    "source_length: 2, target_length: 7, dropout: 0.1}\n"
    "data: {samples: 61}\n"
    "batch: 8\n"
    "lanes: 1\n"
    "steps: 20\n"
    "seed: 5\n"
    "optimizer: {kind: adam, learning_rate: 0.001}\n"
    "workers: 1\n";

std::vector<double> LossesOfTheJob() {
  const integration::Folder folder;
  const integration::TrainRun run = integration::Train({.spec = kSpec, .dir = folder / "job"});
  EXPECT_EQ(run.exit_code, 0) << run.Trace();
  std::vector<double> losses;
  for (const nlohmann::json& event : run.Events("step")) {
    EXPECT_EQ(event.value("step", int64_t{-1}), static_cast<int64_t>(losses.size()));
    losses.push_back(event.value("loss", -1.0));
  }
  return losses;
}

TEST(JobParity, TwentyStepsFollowLibTorchAndAWrongRateIsCaught) {
  const auto spec = ParseJobYaml(kSpec, "spec");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::vector<double> ours = LossesOfTheJob();
  ASSERT_EQ(ours.size(), static_cast<size_t>(kSteps));
  const auto difference = [&](double rate) {
    return LargestRelativeDifference(
        ours, LibTorchLosses(spec->training, kSteps, rate, AdamBy::kOptimizer, Feed::kAsTheJob));
  };
  EXPECT_LE(difference(kRate), kTolerance);
  EXPECT_GT(difference(kRate * 1.01), kTolerance) << "one percent";
  EXPECT_LT(ours.back(), ours.front());
}

}  // namespace
}  // namespace muster::parity
