// A task of a plug-in, that of examples/plugin and one that breaks its contract, in real programs.
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"
#include "tests/support/terminal.h"
#include "tests/support/text_of.h"
#include "tests/worker/plugins/name_of.h"

namespace muster::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr int kRows = 48;

// Rows of two numbers and of what is to be told from them: mostly 0, so that a constant is wrong by
// 0.5 on average.
std::string MlpSpec(const std::string& file) {
  std::string rows;
  for (int i = 0; i < kRows; ++i) {
    const double a = (i % 7 - 3) / 3.0, b = (i % 5 - 2) / 2.0;
    absl::StrAppend(&rows, a, ",", b, ",", a - b, "\n");
  }
  WriteFile(file, rows);
  return absl::StrCat(
      "name: rows\ntask: mlp\nparameters: {hidden: 12}\ndata: {paths: [", file,
      "], format: csv, header: false, label: \"3\"}\nbatch: 12\nlanes: 6\nepochs: 12\n",
      "optimizer: {kind: adamw, learning_rate: 0.03}\n");
}

std::string OddSpec(const std::string& does) {
  return absl::StrCat("name: odd\ntask: odd\nparameters: {does: ", does,
                      "}\nbatch: 4\nsteps: 2\nrestarts: 0\n");
}

std::string ErrorOf(const TrainRun& run) { return run.result.value("reason", ""); }

TEST(PluginTest, AnyNumberOfWorkersMakesTheSameBitsAlsoWithAKill) {
  const Folder folder;
  ExpectSameBitsOnAnyNumber({.spec = MlpSpec(folder / "rows.csv"),
                             .dir = folder / "job",
                             .plugins = MUSTER_TEST_PLUGINS "/example_mlp"},
                            [](const TrainRun& run) {
                              // Far better than the best constant, which has a loss of 0.93.
                              EXPECT_LT(run.result.value("final_loss", 9.0), 0.1) << run.Trace();
                            });
  // And on rows between those that it was trained with, of which no constant tells more than their
  // mean.
  constexpr int kHeldOut = 100;
  std::string rows;
  double sum = 0, squares = 0;
  for (int i = 0; i < kHeldOut; ++i) {
    const double a = (i % 11 - 5) / 5.5, b = (i % 13 - 6) / 6.5, label = a - b;
    absl::StrAppend(&rows, a, ",", b, ",", label, "\n");
    sum += label;
    squares += label * label;
  }
  WriteFile(folder / "held-out.csv", rows);
  const double of_the_mean = squares / kHeldOut - sum * sum / kHeldOut / kHeldOut;
  Program evaluate({kMuster, "evaluate", "--dir", folder / "job-1", "--plugins",
                    MUSTER_TEST_PLUGINS "/example_mlp", "--data", folder / "held-out.csv",
                    "--json"});
  ASSERT_EQ(evaluate.End(), 0) << evaluate.output();
  const auto measured = nlohmann::json::parse(evaluate.output());
  EXPECT_EQ(measured["samples"], kHeldOut);
  EXPECT_LT(measured["metrics"]["loss"], of_the_mean / 4);
}

TEST(PluginTest, GoingOnWithAnotherFileIsAnotherNumericEnvironment) {
  const Folder folder;
  const std::string spec = MlpSpec(folder / "rows.csv");
  const std::string plugins = folder / "plugins", dir = folder / "job";
  std::filesystem::create_directory(plugins);
  std::filesystem::copy_file(MUSTER_TEST_PLUGINS "/example_mlp/example_mlp.so",
                             plugins + "/mlp.so");
  // It stops half-way, with a checkpoint.
  TrainOptions options{.spec = spec, .dir = dir, .settings = {"epochs=2000"}, .plugins = plugins};
  options.interrupt_at = [](const nlohmann::json& event) {
    return event.value("event", "") == "step" && event.value("step", 0) >= 9;
  };
  const TrainRun first = Train(options);
  ASSERT_EQ(first.result.value("state", ""), "stopped") << first.Trace();
  std::ofstream(plugins + "/mlp.so", std::ios::app) << "another byte";
  options.interrupt_at = nullptr;
  const TrainRun second = Train(options);
  EXPECT_EQ(second.exit_code, kExitOtherEnvironment) << second.Trace();
  EXPECT_THAT(second.Trace(),
              HasSubstr("environment differs from the job's: plugin (mlp.so sha256:"));
}

TEST(PluginTest, DataThatCannotBeIsNamedWithItsPlace) {
  const Folder folder;
  const std::string spec = MlpSpec(folder / "rows.csv");
  const auto train = [&](const char* dir, std::vector<std::string> settings) {
    return Train({.spec = spec,
                  .dir = folder / dir,
                  .settings = std::move(settings),
                  .plugins = MUSTER_TEST_PLUGINS "/example_mlp"});
  };
  const TrainRun no_column = train("no-column", {"data.label=price"});
  EXPECT_EQ(no_column.exit_code, kExitBadConfiguration) << no_column.Trace();
  EXPECT_THAT(ErrorOf(no_column), HasSubstr("has no column 'price'; it has: 1, 2, 3"));
  std::ofstream(folder / "rows.csv", std::ios::app) << "0,0,nothing\n";
  const TrainRun bad_cell = train("bad-cell", {"restarts=0"});
  EXPECT_EQ(bad_cell.exit_code, kExitBadData) << bad_cell.Trace();
  EXPECT_THAT(ErrorOf(bad_cell), AllOf(HasSubstr("rows.csv: line 49 (byte "),
                                       HasSubstr("column '3': 'nothing' is no number")));
}

TEST(PluginTest, ATaskThatNobodyBringsAndAWrongParameterAreNamed) {
  const Folder folder;
  const TrainRun unknown = Train({.spec = OddSpec("nothing"), .dir = folder / "unknown"});
  EXPECT_EQ(unknown.exit_code, kExitBadConfiguration) << unknown.Trace();
  EXPECT_THAT(ErrorOf(unknown), AllOf(HasSubstr("task: 'odd' is unknown; there are code-lm"),
                                      HasSubstr("--plugins")));
  const TrainRun wrong = Train(
      {.spec = OddSpec("3"), .dir = folder / "wrong", .plugins = MUSTER_TEST_PLUGINS "/odd_NONE"});
  EXPECT_EQ(wrong.exit_code, kExitBadConfiguration) << wrong.Trace();
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("parameters.does: 3 is not text"));
}

TEST(PluginTest, TasksAndCheckAnswerForAPlugIn) {
  const Folder folder;
  const std::string spec = MlpSpec(folder / "rows.csv"), file = folder / "job.yaml";
  const std::string plugins = MUSTER_TEST_PLUGINS "/example_mlp";
  WriteFile(file, spec);
  Program tasks({kMuster, "tasks", "mlp", "--plugins", plugins});
  EXPECT_EQ(tasks.End(), 0) << tasks.output();
  EXPECT_THAT(tasks.output(), AllOf(HasSubstr("mlp: a multi-layer perceptron"), HasSubstr("hidden"),
                                    HasSubstr("example_mlp.so")));
  Program unknown({kMuster, "tasks", "nothing", "--plugins", plugins});
  EXPECT_EQ(unknown.End(), kExitBadConfiguration);
  EXPECT_THAT(unknown.output(), HasSubstr("there is no task 'nothing'"));

  Program check({kMuster, "check", file, "--plugins", plugins, "--gradients", "--json"});
  EXPECT_EQ(check.End(), 0) << check.output();
  const auto report = nlohmann::json::parse(check.output());
  EXPECT_EQ(report["samples"], kRows);
  EXPECT_EQ(report["steps"], 48);
  EXPECT_EQ(report["gradients"].size(), 20U);
  EXPECT_GT(report["memory"]["worker"], 1 << 20);
  Program wrong({kMuster, "check", file, "--plugins", plugins, "--set", "parameters.hidden=none"});
  EXPECT_EQ(wrong.End(), kExitBadConfiguration);
  EXPECT_THAT(wrong.output(), HasSubstr("parameters.hidden"));
  WriteFile(folder / "rows.csv", "1,2,3\n1,2,none\n");
  Program bad({kMuster, "check", file, "--plugins", plugins});
  EXPECT_EQ(bad.End(), kExitBadData) << bad.output();
  EXPECT_THAT(bad.output(), HasSubstr("line 2 (byte 6): column '3': 'none' is no number"));
}

TEST(PluginTest, ATrainedModelIsMeasuredWithoutItsCluster) {
  const Folder folder;
  const std::string rows = folder / "rows.csv", dir = folder / "job";
  const std::string plugins = MUSTER_TEST_PLUGINS "/example_mlp";
  const TrainRun run = Train({.spec = MlpSpec(rows), .dir = dir, .plugins = plugins});
  ASSERT_EQ(run.exit_code, 0) << run.Trace();
  const std::vector<std::string> words = {kMuster, "evaluate", "--dir", dir, "--plugins", plugins};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  Program first(with({"--json"})), second(with({"--json"}));
  EXPECT_EQ(first.End(), 0) << first.output();
  EXPECT_EQ(second.End(), 0);
  EXPECT_EQ(first.output(), second.output());
  const auto measured = nlohmann::json::parse(first.output());
  EXPECT_EQ(measured["step"], 48);
  EXPECT_EQ(measured["samples"], kRows);
  EXPECT_LT(measured["metrics"]["loss"], 0.1);

  WriteFile(folder / "other.csv", "0,0,7\n0,0,7\n");
  Program other(with({"--json", "--data", folder / "other.csv"}));
  EXPECT_EQ(other.End(), 0) << other.output();
  EXPECT_GT(nlohmann::json::parse(other.output())["metrics"]["loss"], 10);
  Program no_step(with({"--step", "7"}));
  EXPECT_EQ(no_step.End(), kExitBadConfiguration);
  EXPECT_THAT(no_step.output(), HasSubstr("holds no checkpoint of step 7; there are those of 48"));
  for (const char* format : {"safetensors", "pt", "libtorch"}) {
    Program nowhere({kMuster, "export", "--dir", dir, "--format", format, "-o", dir});
    EXPECT_EQ(nowhere.End(), kExitBadConfiguration);
    EXPECT_THAT(nowhere.output(), HasSubstr("is a folder, and no file; name one"));
  }
  Program wider(with({"--set", "parameters.hidden=13"}));
  EXPECT_EQ(wider.End(), kExitBadConfiguration);
  EXPECT_THAT(wider.output(), HasSubstr("other tensors than the checkpoint has"));
}

// What no task comes from is said beside the tasks that there are, in one sentence.
struct NoPlugin {
  const char* name;
  const char* library;  // of the tests' own; or what is written in its place
  const char* says;
};
constexpr NoPlugin kNoPlugins[] = {
    {"no function", "odd_NO_SYMBOL", "it exports no function muster_plugin"},
    {"an older interface", "odd_OLD_INTERFACE",
     "version 0 of the interface of plug-ins, and this muster"},
    {"another muster", "odd_OTHER_MUSTER", "built with muster 0.0.9, and this muster with "},
    {"another LibTorch", "odd_OTHER_TORCH", "built with LibTorch 1.13.1, and this muster with "},
    {"throws", "odd_THROWS", "throws when it is loaded: no plug-in today"},
    {"a missing symbol", "odd_UNDEFINED", "it cannot be loaded: undefined symbol: "},
    {"a script", "#!/bin/sh", "it cannot be loaded: "},
    {"half a library",
     "\x7f"
     "ELF",
     "it cannot be loaded: "},
    {"nothing", "", "it cannot be loaded: "},
    {"a folder", "/", "it is no file"}};

TEST(PluginTest, WhatCannotBeLoadedIsNamedWithTheReason) {
  const Folder folder;
  const std::string spec = folder / "job.yaml";
  WriteFile(spec, OddSpec("as it should"));
  for (const NoPlugin& row : kNoPlugins) {
    SCOPED_TRACE(row.name);
    const std::string plugins = folder / NameOf(row.name), file = plugins + "/odd.so";
    std::filesystem::create_directory(plugins);
    if (row.library == std::string("/"))
      std::filesystem::create_directory(file);
    else if (row.library[0] == 'o')
      std::filesystem::copy_file(
          absl::StrCat(MUSTER_TEST_PLUGINS "/", row.library, "/", row.library, ".so"), file);
    else
      WriteFile(file, row.library);
    Program check({kMuster, "check", spec, "--plugins", plugins});
    EXPECT_EQ(check.End(), kExitBadConfiguration) << check.output();
    EXPECT_THAT(check.output(), AllOf(HasSubstr("task: 'odd' is unknown; there are code-lm"),
                                      HasSubstr(file + ": "), HasSubstr(row.says)));
    EXPECT_EQ(check.output().find('\n'), check.output().size() - 1) << check.output();
  }
  // And a whole job of it.
  const TrainRun run = Train({.spec = OddSpec("as it should"),
                              .dir = folder / "job",
                              .plugins = folder / NameOf("another muster")});
  EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
  EXPECT_THAT(ErrorOf(run), HasSubstr("built with muster 0.0.9"));
}

// Each start does the steps up to the one that fails again, since there is no checkpoint.
TEST(PluginTest, AJobThatFailsInALaterStepEachTimeEndsAfterItsRestarts) {
  const Folder folder;
  const TrainRun run =
      Train({.spec = "name: odd\ntask: odd-module\nparameters: {does: throws after twelve lanes}\n"
                     "batch: 4\nlanes: 2\nsteps: 20\nrestarts: 1\ncheckpoint: {every_seconds: 0}\n",
             .dir = folder / "job",
             .plugins = MUSTER_TEST_PLUGINS "/odd_module"});
  EXPECT_EQ(run.exit_code, kExitFailed) << run.Trace();
  EXPECT_THAT(ErrorOf(run), HasSubstr("lane 1: LibTorch: no lane any more")) << run.Trace();
  EXPECT_THAT(run.Trace(), AllOf(HasSubstr("worker-0 ended with exit code 1: "),
                                 HasSubstr("no lane any more; it starts again in 0.2 s")));
  EXPECT_THAT(run.Trace(), HasSubstr("it fails over and over and is not started again"));
}

// `muster check` runs the task in a worker: however that ends, its user is told whose task it ran.
TEST(PluginTest, ACheckWhoseWorkerIsEndedByTheTaskSaysSo) {
  const Folder folder;
  const std::string spec = folder / "job.yaml", plugins = MUSTER_TEST_PLUGINS "/odd_module";
  const struct {
    const char* does;
    const char* says;
  } rows[] = {{"aborts", "the worker was killed by SIGABRT while it ran"},
              {"calls exit", "the worker has ended with exit code 1 while it ran"},
              {"leaves at once", "the worker has ended with exit code 0 while it ran"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.does);
    WriteFile(spec, absl::StrCat("task: odd-module\nparameters: {does: ", row.does,
                                 "}\nbatch: 4\nlanes: 2\nsteps: 2\n"));
    Program check({kMuster, "check", spec, "--plugins", plugins});
    EXPECT_EQ(check.End(), kExitFailed) << check.output();
    EXPECT_THAT(check.output(),
                HasSubstr(absl::StrCat("muster: ", row.says, " task odd-module of plug-in ",
                                       plugins, "/odd_module.so")));
  }
}

// The commands' words do not depend on what the task leaves of its process.
TEST(PluginTest, ACheckOfATaskThatClosesTheStandardStreamsTellsAll) {
  const Folder folder;
  const std::string spec = folder / "job.yaml";
  WriteFile(spec, OddSpec("closes what is printed to"));
  Program check({kMuster, "check", spec, "--plugins", MUSTER_TEST_PLUGINS "/odd_NONE"});
  check.End();
  EXPECT_THAT(check.output(), HasSubstr("odd, of odd_NONE.so"));
}

// Whoever asks for JSON reads JSON, whatever the task's author has left in it.
TEST(PluginTest, WhatATaskPrintsIsNoPartOfAnAnswer) {
  const Folder folder;
  const std::string spec = folder / "job.yaml", errors = folder / "errors";
  WriteFile(spec, OddSpec("prints"));
  Program check({"/bin/sh", "-c",
                 absl::StrCat(kMuster, " check ", spec, " --json --plugins ", MUSTER_TEST_PLUGINS,
                              "/odd_NONE 2>", errors)});
  check.End();
  const auto report = nlohmann::json::parse(check.output(), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(report.is_object()) << check.output();
  EXPECT_THAT(TextOf(errors),
              AllOf(HasSubstr("printed by a stream\n"), HasSubstr("printed by printf\n")));
}

// Nothing else would end either: its worker never joins, and nobody waits for members alone.
TEST(PluginTest, ATaskThatIsNeverMadeEndsItsWorkerAndACheck) {
  const Folder folder;
  const std::string spec = folder / "job.yaml", plugins = MUSTER_TEST_PLUGINS "/odd_module";
  WriteFile(spec,
            "name: odd\ntask: odd-module\nparameters: {does: is never made}\nbatch: 4\nlanes: 2\n"
            "steps: 2\nrestarts: 0\nthread_patience: 5\n");
  const std::string says = absl::StrCat(" s in task odd-module of plug-in ", plugins,
                                        "/odd_module.so: its constructor, a first pass through its "
                                        "model or what it prepares has not returned");
  Program check({kMuster, "check", spec, "--plugins", plugins});
  EXPECT_EQ(check.End(), kExitBadConfiguration) << check.output();
  EXPECT_THAT(check.output(),
              AllOf(HasSubstr("muster check: nothing has gone on for "), HasSubstr(says)));
  const Shown shown = OnATerminal({kMuster, "check", spec, "--plugins", plugins}, "xterm");
  EXPECT_EQ(shown.exit_code, kExitBadConfiguration) << shown.text;
  EXPECT_THAT(shown.text, AllOf(HasSubstr("\rmaking the model of "),
                                HasSubstr("\033[K\r\033[Kmuster check: nothing has gone on for ")))
      << "who waits is told what is under way";
  Program train({kMuster, "train", spec, "--plugins", plugins, "--dir", folder / "job",
                 "--thread-patience", "5", "--lease", "0.5"});
  EXPECT_EQ(train.End(), kExitFailed) << train.output();
  EXPECT_THAT(train.output(), HasSubstr(says));
}

TEST(PluginTest, ACheckTellsByItsExitCodeWhoseFaultItIs) {
  const Folder folder;
  const std::string spec = folder / "job.yaml", plugins = MUSTER_TEST_PLUGINS "/odd_NONE";
  const struct {
    const char* does;
    int code;
    const char* says;
  } rows[] = {{"throws in a lane", kExitBadConfiguration, "task odd throws: no lane"},
              {"finds bad data", kExitBadData, "rows.csv:7: no number"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.does);
    WriteFile(spec, OddSpec(row.does));
    Program check({kMuster, "check", spec, "--plugins", plugins});
    EXPECT_EQ(check.End(), row.code) << check.output();
    EXPECT_THAT(check.output(), HasSubstr(row.says));
  }
}

struct Oddity {
  const char* does;
  int code;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const Oddity& oddity) {
    return out << oddity.does;
  }
};
class OddPluginTest : public testing::TestWithParam<Oddity> {};

TEST_P(OddPluginTest, EndsInOneSentenceWithItsExitCode) {
  const Folder folder;
  const TrainRun run = Train({.spec = OddSpec(GetParam().does),
                              .dir = folder / "job",
                              .plugins = MUSTER_TEST_PLUGINS "/odd_NONE"});
  EXPECT_EQ(run.exit_code, GetParam().code) << run.Trace();
  EXPECT_THAT(ErrorOf(run), HasSubstr(GetParam().says)) << run.Trace();
}
INSTANTIATE_TEST_SUITE_P(
    Oddities, OddPluginTest,
    testing::Values(
        Oddity{"throws when it is made", kExitBadConfiguration, "throws when it is made: no luck"},
        Oddity{"has no tensor", kExitBadConfiguration, "no parameter"},
        Oddity{"has many tensors", kExitBadConfiguration, "the model has 200000 tensors"},
        Oddity{"has a long name", kExitBadConfiguration, "at most 65536 are allowed"},
        Oddity{"leaves out a long list", kExitDone, ""},
        Oddity{"throws when it begins", kExitFailed, "task odd throws: no weights"},
        Oddity{"throws in a lane", kExitFailed, "task odd throws: no lane"},
        Oddity{"throws in a hook", kExitFailed, "task odd throws: no hook"},
        Oddity{"is never ready", kExitBadConfiguration, "has not told that tensor 0 is ready"},
        Oddity{"finds bad data", kExitBadData, "rows.csv:7: no number"},
        Oddity{"has other tensors when asked again", kExitBadConfiguration,
               "task odd has other tensors when it is asked again: 2 of them, and then 1"},
        Oddity{"has no number", kExitNotFinite, "not finite"}),
    [](const auto& instance) { return NameOf(instance.param.does); });

// Likewise of a module of LibTorch.
class OddModuleTest : public testing::TestWithParam<Oddity> {};

TEST_P(OddModuleTest, EndsInOneSentenceWithItsExitCode) {
  const Folder folder;
  const TrainRun run = Train(
      {.spec = absl::StrCat("name: odd\ntask: odd-module\nparameters: {does: ", GetParam().does,
                            "}\nbatch: 4\nlanes: 2\nsteps: 2\nrestarts: 0\n"),
       .dir = folder / "job",
       .plugins = MUSTER_TEST_PLUGINS "/odd_module"});
  EXPECT_EQ(run.exit_code, GetParam().code) << run.Trace();
  EXPECT_THAT(ErrorOf(run), HasSubstr(GetParam().says)) << run.Trace();
}
INSTANTIATE_TEST_SUITE_P(
    Oddities, OddModuleTest,
    testing::Values(Oddity{"as it should", kExitDone, ""},
                    Oddity{"throws in forward", kExitFailed, "no forward"},
                    Oddity{"throws a number", kExitFailed, "task odd-module throws"},
                    Oddity{"throws in a hook", kExitFailed, "no hook"},
                    Oddity{"throws a number in a hook", kExitFailed, "task odd-module throws"},
                    Oddity{"has no number", kExitNotFinite, "not finite"},
                    Oddity{"gives many losses the second time", kExitFailed, "LibTorch: "},
                    Oddity{"gives nothing", kExitFailed, "LibTorch: "},
                    Oddity{"forgets the gradient", kExitFailed, "does not require grad"},
                    Oddity{"makes a parameter larger the second time", kExitFailed, "LibTorch: "},
                    Oddity{"makes a buffer larger the second time", kExitBadConfiguration,
                           "buffer 'count' must be contiguous and keep its shape and type"},
                    Oddity{"leaves a larger gradient", kExitBadConfiguration,
                           "the gradient of parameter 'unused' is not of its shape and type"},
                    Oddity{"leaves a gradient of doubles", kExitBadConfiguration,
                           "the gradient of parameter 'unused' is not of its shape and type"},
                    Oddity{"leaves no gradient", kExitBadConfiguration,
                           "the gradient of parameter 'unused' is not of its shape and type"},
                    Oddity{"calls exit", kExitFailed,
                           "has called exit; let it return an error or throw"},
                    Oddity{"leaves at once", kExitFailed, "which nobody told it to end with"},
                    Oddity{"leaves as if stopped", kExitFailed, "which nobody told it to end with"},
                    Oddity{"aborts", kExitFailed, "worker-0"}),
    [](const auto& instance) { return NameOf(instance.param.does); });

}  // namespace
}  // namespace muster::integration
