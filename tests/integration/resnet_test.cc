// The residual network of examples/resnet on images in CIFAR's format: batch norm with counts in
// int64, augmentation, and a loader that reads ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

constexpr int kSide = 32;

// Stripes: ten classes, by their direction and width, under noise.
std::string Images(int samples, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 30);
  std::string file;
  for (int s = 0; s < samples; ++s) {
    const int label = static_cast<int>(random() % 10);
    const double wave = 0.4 + 0.25 * (label / 2), shift = static_cast<double>(random() % 628) / 100;
    file.push_back(static_cast<char>(label));
    for (int channel = 0; channel < 3; ++channel)
      for (int y = 0; y < kSide; ++y)
        for (int x = 0; x < kSide; ++x) {
          const double stripe = 128 + 60 * std::sin(wave * (label % 2 ? x : y) + shift);
          file.push_back(
              static_cast<char>(std::lround(std::clamp(stripe + noise(random), 0., 255.))));
        }
  }
  return file;
}

TEST(ResNetTest, LearnsWithTheSameBitsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  WriteFile(folder / "train/data_batch_1.bin", Images(400, 1));
  WriteFile(folder / "held-out/test_batch.bin", Images(100, 2));
  const std::string spec = absl::StrCat(
      "name: resnet\ntask: resnet\nparameters: {width: 8}\n", "data: {format: cifar10, paths: [",
      folder / "train",
      "], mean: [0.5], deviation: [0.25], crop: 2, flip: true, validation_share: 0.1}\n",
      "validation: {every_epochs: 3}\nbatch: 48\nlanes: 6\nepochs: 8\noptimizer: {kind: adamw, "
      "learning_rate: 0.02}\n");
  const std::string plugins = MUSTER_TEST_PLUGINS "/example_resnet";
  ExpectSameBitsOnAnyNumber({.spec = spec, .dir = folder / "job", .plugins = plugins});
  Program evaluate({MUSTER_PROGRAMS "/muster", "evaluate", "--dir", folder / "job-1", "--plugins",
                    plugins, "--data", folder / "held-out", "--json"});
  ASSERT_EQ(evaluate.End(), 0) << evaluate.output();
  const auto measured = nlohmann::json::parse(evaluate.output());
  EXPECT_EQ(measured["samples"], 100);
  EXPECT_GT(measured["metrics"]["accuracy"], 0.5) << "chance is 0.1";
  Program left_out({MUSTER_PROGRAMS "/muster", "evaluate", "--dir", folder / "job-1", "--plugins",
                    plugins, "--json"});
  ASSERT_EQ(left_out.End(), 0) << left_out.output();
  const int samples = nlohmann::json::parse(left_out.output()).value("samples", 0);
  EXPECT_GT(samples, 20) << "about a tenth of 400, which it was not trained with";
  EXPECT_LT(samples, 60);
}

TEST(ResNetTest, WithBatchNormOverAllLanesTheBitsAreTheSameAlsoWithAKill) {
  const Folder folder;
  WriteFile(folder / "train/data_batch_1.bin", Images(120, 1));
  const std::string spec = absl::StrCat(
      "name: resnet\ntask: resnet\nparameters: {width: 4}\nsync_batch_norm: true\n",
      "data: {format: cifar10, paths: [", folder / "train",
      "], mean: [0.5], deviation: [0.25], crop: 2, flip: true, validation_share: 0.1}\n",
      "validation: {every_epochs: 1}\nbatch: 24\nlanes: 6\nepochs: 3\noptimizer: {kind: adamw, "
      "learning_rate: 0.02}\n");
  ExpectSameBitsOnAnyNumber(
      {.spec = spec, .dir = folder / "job", .plugins = MUSTER_TEST_PLUGINS "/example_resnet"});
}

}  // namespace
}  // namespace muster::integration
