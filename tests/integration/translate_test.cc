// The translation of examples/translate: masks and padding, a tokenizer in the model's buffers, and
// lines that it writes by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr char kPlugins[] = MUSTER_TEST_PLUGINS "/example_translate";

void MakeLines(const std::string& file, int lines, int seed) {
  Program make({"/usr/bin/python3", MUSTER_SOURCE "/examples/translate/make_data.py", file,
                "--lines", absl::StrCat(lines), "--seed", absl::StrCat(seed)});
  ASSERT_EQ(make.End(), 0) << make.output();
}

// Its tokenizer is kept in a cache of the test's own.
void KeepWithin(const Folder& folder) { setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1); }

TEST(TranslateTest, LearnsWithTheSameBitsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  KeepWithin(folder);
  MakeLines(folder / "train.tsv", 1000, 0);
  MakeLines(folder / "held-out.tsv", 60, 1);
  const std::string spec = absl::StrCat(
      "name: translate\ntask: translate\nparameters: {width: 32, heads: 2, feedforward: 64, ",
      "dropout: 0.05, label_smoothing: 0.02}\ndata: {paths: [", folder / "train.tsv",
      "]}\nbatch: 48\nlanes: 6\nepochs: 14\nclip_norm: 1\n",
      "optimizer: {kind: adamw, learning_rate: 0.006}\n",
      "schedule: {kind: cosine, warmup_steps: 20}\n");
  ExpectSameBitsOnAnyNumber({.spec = spec, .dir = folder / "job", .plugins = kPlugins});

  const std::vector<std::string> words = {"--dir", folder / "job-1", "--plugins", kPlugins};
  const auto muster = [&](const std::string& command, std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    more.insert(more.begin(), {kMuster, command});
    return more;
  };
  Program evaluate(muster("evaluate", {"--data", folder / "held-out.tsv", "--json"}));
  ASSERT_EQ(evaluate.End(), 0) << evaluate.output();
  const auto measured = nlohmann::json::parse(evaluate.output());
  EXPECT_EQ(measured["samples"], 60);
  // The most frequent token of the target, "lo", is less than a third of all; a line that is always
  // the same is right in one of thousands.
  EXPECT_GT(measured["metrics"]["token_accuracy"], 0.6);
  EXPECT_GT(measured["metrics"]["exact_match"], 0.2);

  Program nothing(muster("generate", {}));
  EXPECT_EQ(nothing.End(), 64);
  EXPECT_THAT(nothing.output(), HasSubstr("give the line that is to be translated (--prompt)"));

  // On a machine that never saw the training data, or the tokenizer that was made of it.
  std::filesystem::remove(folder / "train.tsv");
  std::filesystem::remove_all(folder / "cache");
  Program generate(muster("generate", {"--prompt", "the old dog sees the king"}));
  EXPECT_EQ(generate.End(), 0) << generate.output();
  EXPECT_THAT(generate.output(), HasSubstr("the old dog sees the king\tlo "));
  Program again(muster("evaluate", {"--data", folder / "held-out.tsv", "--json"}));
  ASSERT_EQ(again.End(), 0) << again.output();
  EXPECT_EQ(nlohmann::json::parse(again.output()), measured);
}

TEST(TranslateTest, LinesAreLeftOutOfTrainingAndMeasured) {
  const Folder folder;
  KeepWithin(folder);
  MakeLines(folder / "train.tsv", 200, 0);
  WriteFile(folder / "job.yaml",
            absl::StrCat("task: translate\nparameters: {merges: 20}\nbatch: 8\nepochs: 1\ndata: {",
                         "paths: [", folder / "train.tsv", "], validation_share: 0.25}\n",
                         "validation: {every_epochs: 1}\n"));
  Program check({kMuster, "check", folder / "job.yaml", "--plugins", kPlugins, "--json"});
  ASSERT_EQ(check.End(), 0) << check.output();
  const auto report = nlohmann::json::parse(check.output());
  const int trained = report["samples"], measured = report["validation"]["samples"];
  EXPECT_EQ(trained + measured, 200);
  EXPECT_GT(measured, 25);
  EXPECT_LT(measured, 75);
}

TEST(TranslateTest, ALineThatIsNoPairIsNamed) {
  const Folder folder;
  KeepWithin(folder);
  WriteFile(folder / "job.yaml", absl::StrCat("task: translate\nsteps: 1\ndata: {paths: [",
                                              folder / "lines.tsv", "]}\n"));
  WriteFile(folder / "lines.tsv", "a\tb\nno tab\n");
  Program check({kMuster, "check", folder / "job.yaml", "--plugins", kPlugins});
  EXPECT_EQ(check.End(), 65) << check.output();
  EXPECT_THAT(check.output(), HasSubstr("line 2 of all files is not a source, a tab and a target"));
}

}  // namespace
}  // namespace muster::integration
