// A job goes on with another build of its plug-in: not without a word, and with it, it is noted
// from which step on, whoever is killed in between.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr char kOld[] = MUSTER_TEST_PLUGINS "/example_mlp/example_mlp.so";
// The same with another activation: the tensors are alike, and the bits are not.
constexpr char kNew[] = MUSTER_TEST_PLUGINS "/other_mlp/other_mlp.so";

class AcceptedPluginTest : public testing::Test {
 protected:
  AcceptedPluginTest() : plugins_(folder_ / "plugins"), dir_(folder_ / "job") {
    std::string rows;
    for (int i = 0; i < 48; ++i)
      absl::StrAppend(&rows, (i % 7 - 3) / 3.0, ",", (i % 5 - 2) / 2.0, ",", i % 3, "\n");
    WriteFile(folder_ / "rows.csv", rows);
    fs::create_directory(plugins_);
  }

  void Put(const char* library) {
    fs::copy_file(library, plugins_ + "/new", fs::copy_options::overwrite_existing);
    fs::rename(plugins_ + "/new", plugins_ + "/mlp.so");
  }
  TrainOptions Options(const std::string& dir, int workers = 1) {
    return {.spec = absl::StrCat(
                "name: rows\ntask: mlp\nparameters: {hidden: 12}\ndata: {paths: [",
                folder_ / "rows.csv", "], format: csv, header: false, label: \"3\"}\n",
                "batch: 12\nlanes: 6\nsteps: 400\noptimizer: {kind: adamw, learning_rate: 0.03}\n"),
            .dir = dir,
            .workers = workers,
            .plugins = plugins_};
  }
  // It stops half-way, with a checkpoint. Returns at which step.
  int64_t StopHalfway() {
    Put(kOld);
    TrainOptions options = Options(dir_);
    options.interrupt_at = [](const nlohmann::json& event) {
      return event.value("event", "") == "step" && event.value("step", 0) >= 9;
    };
    const TrainRun run = Train(options);
    EXPECT_EQ(run.result.value("state", ""), "stopped") << run.Trace();
    return run.result.value("steps", int64_t{0});
  }
  std::string CopyOf(const char* name) {
    const std::string copy = folder_ / name;
    fs::copy(dir_, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return copy;
  }
  std::string Said(std::vector<std::string> words, const std::string& dir) {
    words.insert(words.begin(), kMuster);
    words.insert(words.end(), {"--dir", dir});
    Program program(words);
    EXPECT_EQ(program.End(), 0) << program.output();
    return program.output();
  }

  const Folder folder_;
  const std::string plugins_, dir_;
};

TEST_F(AcceptedPluginTest, GoesOnOnlyWhereThatIsSaidAndEverythingTellsOfIt) {
  const int64_t stopped_at = StopHalfway();
  ASSERT_GT(stopped_at, 0);
  Put(kNew);
  const TrainRun refused = Train(Options(dir_));
  EXPECT_EQ(refused.exit_code, kExitOtherEnvironment) << refused.Trace();
  EXPECT_THAT(refused.Trace(),
              AllOf(HasSubstr("plugin (mlp.so sha256:"), HasSubstr("; the job has mlp.so sha256:"),
                    HasSubstr("--accept plugin")));
  EXPECT_THAT(refused.result.value("reason", ""), HasSubstr("; the job has mlp.so sha256:"));
  const std::string on_one = CopyOf("one"), on_two = CopyOf("two");
  TrainOptions options = Options(on_one);
  options.accept = {"plugin"};
  const TrainRun one = Train(options);
  ASSERT_EQ(one.exit_code, 0) << one.Trace();

  // On two workers, of which one is killed, and the coordinator after it accepted.
  options = Options(on_two, 2);
  options.accept = {"plugin"};
  options.faults = {"{at_point: \"forming:1\", kill: coordinator}",
                    "{at_point: \"forward:30\", kill: worker-1}"};
  const TrainRun two = Train(options);
  ASSERT_EQ(two.exit_code, 0) << two.Trace();
  EXPECT_TRUE(two.Killed("coordinator")) << two.Trace();
  EXPECT_EQ(one.result["digest"], two.result["digest"]) << one.Trace() << two.Trace();

  for (const std::string& dir : {on_one, on_two}) {
    const auto audit = nlohmann::json::parse(Said({"audit", "--json"}, dir));
    EXPECT_TRUE(audit["ok"]) << audit;
    const std::string sentence = audit["conclusion"];
    EXPECT_THAT(sentence,
                HasSubstr(absl::StrCat("; from step ", stopped_at, " on mlp.so sha256:")));
    ASSERT_EQ(audit["plugins"].size(), 2U) << audit;
    EXPECT_EQ(audit["plugins"][0]["from"], 0);
    EXPECT_EQ(audit["plugins"][0]["accepted_by"], nullptr);
    EXPECT_EQ(audit["plugins"][1]["from"], stopped_at);
    EXPECT_NE(audit["plugins"][0]["file"], audit["plugins"][1]["file"]);
    EXPECT_THAT(Said({"ledger", "--json"}, dir),
                ::testing::StartsWith("{\"plugins\":[{\"from\":0,"));
    EXPECT_THAT(Said({"ledger"}, dir), HasSubstr(" computes in place of mlp.so sha256:"));
    EXPECT_THAT(Said({"history"}, dir), HasSubstr(" computes in place of mlp.so sha256:"));
  }
  // It binds from now on, and what was accepted once is not accepted for ever.
  Put(kOld);
  options = Options(on_one);
  options.settings = {"steps=410"};
  EXPECT_EQ(Train(options).exit_code, kExitOtherEnvironment);
}

TEST_F(AcceptedPluginTest, TheUnchangedFileNeedsNothingAndWhatNobodyKnowsIsNotAccepted) {
  StopHalfway();
  TrainOptions options = Options(dir_);
  options.accept = {"plugin"};
  const TrainRun same = Train(options);
  EXPECT_EQ(same.exit_code, 0) << same.Trace();
  EXPECT_EQ(nlohmann::json::parse(Said({"audit", "--json"}, dir_))["plugins"].size(), 1U);
  // Nothing is accepted that nobody knows.
  Program unknown({kMuster, "resume", "rows", "--accept", "data"});
  EXPECT_EQ(unknown.End(), kExitBadConfiguration) << unknown.output();
  EXPECT_THAT(unknown.output(), AllOf(HasSubstr("--accept"), HasSubstr("plugin")));
}

}  // namespace
}  // namespace muster::integration
