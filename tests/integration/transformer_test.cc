// LibTorch's nn::Transformer of examples/transformer as a plug-in: it is the task that workers
// have, under a name of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

constexpr char kPlugins[] = MUSTER_TEST_PLUGINS "/example_transformer";

std::string Spec(const std::string& task) {
  return absl::StrCat("name: vectors\ntask: ", task,
                      "\nparameters: {width: 16, heads: 2, encoder_layers: 1, decoder_layers: 1, "
                      "feedforward: 64, source_length: 1, target_length: 8, dropout: 0.05}\n"
                      "data: {samples: 500}\nbatch: 48\nlanes: 6\nepochs: 20\n"
                      "optimizer: {kind: adamw, learning_rate: 0.005}\n"
                      "schedule: {kind: cosine, warmup_steps: 10}\n");
}

TEST(TransformerTest, LearnsWithTheSameBitsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  std::string digest;
  ExpectSameBitsOnAnyNumber(
      {.spec = Spec("own-transformer"), .dir = folder / "job", .plugins = kPlugins},
      [&](const TrainRun& run) { digest = run.result.value("digest", ""); });
  const TrainRun built_in =
      Train({.spec = Spec("transformer"), .dir = folder / "built-in", .workers = 1});
  EXPECT_EQ(built_in.result.value("digest", "none"), digest) << "one source, and other bits";

  // Another seed makes other vectors.
  Program evaluate({MUSTER_PROGRAMS "/muster", "evaluate", "--dir", folder / "job-1", "--plugins",
                    kPlugins, "--set", "seed=77", "--json"});
  ASSERT_EQ(evaluate.End(), 0) << evaluate.output();
  const auto measured = nlohmann::json::parse(evaluate.output());
  EXPECT_EQ(measured["samples"], 500);
  EXPECT_LT(measured["metrics"]["loss"], 0.6 * std::log(16))
      << "who says the same of each vector has the logarithm of 16";
}

}  // namespace
}  // namespace muster::integration
