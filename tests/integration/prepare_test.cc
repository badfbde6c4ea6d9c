// A task that prepares something on its machine before it is made, in real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/support/program.h"
#include "tests/worker/plugins/name_of.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
namespace fs = std::filesystem;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr char kPlugins[] = MUSTER_TEST_PLUGINS "/preparing";

// Its programs have a cache of their own.
class PrepareTest : public testing::Test {
 protected:
  PrepareTest() {
    fs::create_directories(folder_ / "notes");
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }

  std::string Spec(const std::string& prepares) const {
    return absl::StrCat("name: prepares\ntask: preparing\nparameters: {prepares: ", prepares,
                        ", notes: ", folder_ / "notes",
                        "}\nbatch: 6\nlanes: 6\nsteps: 4\nrestarts: 1\n");
  }
  TrainRun RunOf(const std::string& prepares, int workers, const std::string& dir = "job") const {
    return Train(
        {.spec = Spec(prepares), .dir = folder_ / dir, .workers = workers, .plugins = kPlugins});
  }
  // The processes that have begun to prepare.
  std::vector<int> Runs() const {
    std::vector<int> runs;
    std::ifstream in(folder_ / "notes/runs");
    for (int pid = 0; in >> pid;) runs.push_back(pid);
    return runs;
  }
  // Below the cache: folders that are prepared, or are left of one.
  std::vector<std::string> Prepared() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache/muster/prepared"))
      if (entry.is_directory()) names.push_back(entry.path().filename().string());
    return names;
  }

  const Folder folder_;
};

TEST_F(PrepareTest, OneOfThreeWorkersDoesItAndLaterJobsFindIt) {
  const TrainRun run = RunOf("as it should", 3);
  ASSERT_EQ(run.exit_code, 0) << run.Trace();
  EXPECT_THAT(Runs(), SizeIs(1));
  EXPECT_THAT(Prepared(), SizeIs(1));
  EXPECT_THAT(run.Trace(), HasSubstr("prepares what its task asks for: 50 %, half of it"));
  const TrainRun again = RunOf("as it should", 2, "later");
  ASSERT_EQ(again.exit_code, 0) << again.Trace();
  EXPECT_EQ(again.result.value("digest", "none"), run.result.value("digest", "nothing"));
  WriteFile(folder_ / "job.yaml", Spec("as it should"));
  Program check({kMuster, "check", folder_ / "job.yaml", "--plugins", kPlugins});
  EXPECT_EQ(check.End(), 0) << check.output();
  EXPECT_THAT(Runs(), SizeIs(1)) << "another job, and another program";
}

TEST_F(PrepareTest, WhereItsWorkerIsKilledAnotherBeginsAfresh) {
  TrainOptions options{.spec = Spec("once it was killed"),
                       .dir = folder_ / "job",
                       .workers = 2,
                       .plugins = kPlugins};
  int killed = 0;
  options.on_event = [&](const nlohmann::json& event) {
    // The one that waits for it: so both are there, and the other one is in the middle of it.
    const std::string text = event.value("text", "");
    const bool waits = event.value("event", "") == "prepares" &&
                       absl::StrContains(text, " waits for process ") &&
                       absl::StrContains(text, "half of it");
    if (!waits || killed != 0) return;
    ASSERT_THAT(Runs(), SizeIs(1));
    killed = Runs()[0];
    EXPECT_THAT(text, HasSubstr(absl::StrCat("process ", killed, ", which")));
    kill(killed, SIGKILL);
  };
  const TrainRun run = Train(options);
  ASSERT_EQ(run.exit_code, 0) << run.Trace();
  EXPECT_NE(killed, 0);
  const std::vector<int> runs = Runs();
  ASSERT_THAT(runs, SizeIs(2)) << run.Trace();
  EXPECT_NE(runs[1], killed);
  ASSERT_THAT(Prepared(), SizeIs(1));
  EXPECT_THAT(Prepared()[0], SizeIs(64)) << "nothing is left that is half-made";
}

// The thread that it has left behind met what was gone, and ended the worker.
TEST_F(PrepareTest, OneThatGoesOnTellingOnceItIsDoneIsHeardByNobody) {
  WriteFile(folder_ / "job.yaml", Spec("and tells for ever"));
  Program check({kMuster, "check", folder_ / "job.yaml", "--plugins", kPlugins});
  EXPECT_EQ(check.End(), 0) << check.output();
}

TEST_F(PrepareTest, AnotherResultIsAnotherNumericEnvironment) {
  TrainOptions options{.spec = Spec("something else each time"),
                       .dir = folder_ / "job",
                       .settings = {"steps=100000"},
                       .plugins = kPlugins};
  options.interrupt_at = [](const nlohmann::json& event) {
    return event.value("event", "") == "step" && event.value("step", 0) >= 3;
  };
  const TrainRun first = Train(options);
  ASSERT_EQ(first.result.value("state", ""), "stopped") << first.Trace();
  fs::remove_all(folder_ / "cache");
  options.interrupt_at = nullptr;
  const TrainRun second = Train(options);
  EXPECT_EQ(second.exit_code, kExitOtherEnvironment) << second.Trace();
  EXPECT_THAT(second.Trace(), HasSubstr("environment differs from the job's: prepared (sha256:"));
}

TEST_F(PrepareTest, AMachineWithoutAPlaceForItIsTold) {
  WriteFile(folder_ / "cache", "no folder");
  const TrainRun run = RunOf("as it should", 1);
  EXPECT_EQ(run.exit_code, kExitFailed) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr("make directory '")) << run.Trace();
  EXPECT_THAT(Runs(), SizeIs(0));
}

struct Broken {
  const char* prepares;
  int code;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const Broken& broken) {
    return out << broken.prepares;
  }
};
class BrokenPrepareTest : public PrepareTest, public testing::WithParamInterface<Broken> {};

TEST_P(BrokenPrepareTest, EndsInOneSentenceWithItsExitCodeAndLeavesNothing) {
  const TrainRun run = RunOf(GetParam().prepares, 1);
  EXPECT_EQ(run.exit_code, GetParam().code) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr(GetParam().says)) << run.Trace();
  if (std::string(GetParam().prepares) != "and is killed") {
    EXPECT_THAT(Prepared(), SizeIs(0));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Broken, BrokenPrepareTest,
    testing::Values(Broken{"nothing", kExitBadConfiguration,
                           "task preparing: nothing was prepared: it has left its folder empty"},
                    Broken{"and throws", kExitBadConfiguration,
                           "task preparing throws when it prepares: no luck"},
                    Broken{"on a full disk", kExitFailed,
                           "No space left on device: free some space"},
                    Broken{"of bad data", kExitBadData, "rows.csv:7: no number"},
                    Broken{"and is killed", kExitFailed, "killed by SIGKILL"}),
    [](const auto& instance) { return NameOf(instance.param.prepares); });

}  // namespace
}  // namespace muster::integration
