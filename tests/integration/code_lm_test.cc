// The language model of examples/code-lm as a plug-in: it is the task that workers have, under a
// name of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr char kPlugins[] = MUSTER_TEST_PLUGINS "/example_code-lm";

// Lines of a small language, whose names and numbers are drawn.
std::string Lines(int lines, uint32_t seed) {
  std::mt19937 random(seed);
  constexpr std::array<const char*, 5> kNames = {"sum", "total", "count", "first", "last"};
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const char* name = kNames[random() % kNames.size()];
    absl::StrAppend(&text, "for (int i = 0; i < ", random() % 100, "; ++i) ", name,
                    " += values[i];\n");
  }
  return text;
}

// Nats a byte of the best predictor that says the same at each place.
double LossOfTheBestConstant(const std::string& text) {
  std::array<double, 256> counts{};
  for (const char byte : text) ++counts[static_cast<uint8_t>(byte)];
  double loss = 0;
  for (const double count : counts)
    if (count > 0) loss -= count * std::log(count / static_cast<double>(text.size()));
  return loss / static_cast<double>(text.size());
}

std::string Spec(const std::string& task, const std::string& file) {
  return absl::StrCat("name: lines\ntask: ", task,
                      "\nparameters: {layers: 1, width: 32, heads: 2, context: 32, stride: 16, "
                      "dropout: 0.05}\ndata: {paths: [",
                      file,
                      "]}\nbatch: 24\nlanes: 6\nsteps: 150\nclip_norm: 1\n"
                      "optimizer: {kind: adamw, learning_rate: 0.01, weight_decay: 0.01}\n"
                      "schedule: {kind: cosine, warmup_steps: 10}\n");
}

TEST(CodeLmTest, LearnsWithTheSameBitsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  const std::string train = folder / "train.txt", held_out = folder / "held-out.txt";
  WriteFile(train, Lines(400, 1));
  WriteFile(held_out, Lines(40, 2));
  std::string digest;
  ExpectSameBitsOnAnyNumber(
      {.spec = Spec("own-code-lm", train), .dir = folder / "job", .plugins = kPlugins},
      [&](const TrainRun& run) { digest = run.result.value("digest", ""); });
  const TrainRun built_in =
      Train({.spec = Spec("code-lm", train), .dir = folder / "built-in", .workers = 1});
  EXPECT_EQ(built_in.result.value("digest", "none"), digest) << "one source, and other bits";

  Program evaluate({kMuster, "evaluate", "--dir", folder / "job-1", "--plugins", kPlugins, "--data",
                    held_out, "--json"});
  ASSERT_EQ(evaluate.End(), 0) << evaluate.output();
  const auto metrics = nlohmann::json::parse(evaluate.output())["metrics"];
  EXPECT_LT(metrics["loss"], 0.5 * LossOfTheBestConstant(Lines(40, 2)));
  EXPECT_GT(metrics["accuracy"], 0.7) << "the most frequent byte is one of six";

  // Also where the training data never was.
  std::filesystem::remove(train);
  Program generate({kMuster, "generate", "--dir", folder / "job-1", "--plugins", kPlugins,
                    "--prompt", "for (int i = 0; "});
  EXPECT_EQ(generate.End(), 0) << generate.output();
  EXPECT_THAT(generate.output(), HasSubstr("for (int i = 0; i"));
}

// Its samples may overlap: none is left out. It says so before it trains with them all.
TEST(CodeLmTest, AShareThatTheTaskDoesNotLeaveOutIsRefused) {
  const Folder folder;
  WriteFile(folder / "train.txt", Lines(40, 1));
  WriteFile(folder / "job.yaml", Spec("own-code-lm", folder / "train.txt"));
  const std::vector<std::string> words = {folder / "job.yaml",
                                          "--plugins",
                                          kPlugins,
                                          "--set",
                                          "data.validation_share=0.1",
                                          "--set",
                                          "validation={every_steps: 10}"};
  for (const std::string command : {"check", "train"}) {
    std::vector<std::string> all = words;
    all.insert(all.begin(), {kMuster, command});
    if (command == "train") all.insert(all.end(), {"--dir", folder / "run"});
    Program program(all);
    EXPECT_EQ(program.End(), 64) << program.output();
    EXPECT_THAT(
        program.output(),
        HasSubstr("data.validation_share: task own-code-lm leaves nothing out of training"));
  }
}

}  // namespace
}  // namespace muster::integration
