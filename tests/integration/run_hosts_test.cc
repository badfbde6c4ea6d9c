// `muster run` as one process for each host, started as launchers do that are not at hand, by what
// they put into the environment, and as a person does on a few hosts, by the lines of the README.
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/host_network.h"
#include "tests/integration/jobs.h"
#include "tests/integration/readme_lines.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/lib/launch/launcher_variables.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::StartsWith;

constexpr int kSamples = 1009;
constexpr int kHosts = 2;

using Hosts = std::vector<std::unique_ptr<Program>>;

// Two ranks on this machine, in one folder, each with these arguments.
Hosts StartRun(const Folder& folder, Environment (*of)(RankOfLauncher), const Environment& others,
               const std::vector<std::string>& arguments) {
  Hosts hosts;
  for (int rank = 0; rank < kHosts; ++rank) {
    Environment environment = of({rank, kHosts, rank, kHosts});
    for (const auto& [name, value] : others) environment[name] = value;
    if (environment.contains("PBS_NODEFILE")) environment["PBS_NODEFILE"] = folder / "nodes";
    std::vector<std::string> words = {"run", "job.yaml", "--json"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    hosts.push_back(std::make_unique<Program>(MusterCommand(words), [environment, &folder] {
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      return chdir((folder / "").c_str()) == 0;
    }));
  }
  return hosts;
}

// Without `dir` the launcher names the run, and its folder after that.
void ExpectRun(Environment (*of)(RankOfLauncher), const Environment& others, const std::string& dir,
               const std::string& run_id) {
  const Folder folder;
  WriteFile(folder / "nodes", "this\nthis\n");
  WriteFile(folder / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, /*epochs=*/1));
  std::vector<std::string> arguments = {"--workers", "2"};
  if (!dir.empty()) arguments.insert(arguments.end(), {"--dir", dir});
  const Hosts hosts = StartRun(folder, of, others, arguments);
  for (const auto& host : hosts) EXPECT_EQ(host->End(), 0) << host->output();
  const std::string where = folder / (dir.empty() ? "muster-runs/counting-" + run_id : dir);
  EXPECT_EQ(ReadJson(where + "/run.json").value("run_id", ""), run_id);
  EXPECT_NE(FolderOfHost(where, 1), "");
  const nlohmann::json result = ReadJson(where + "/result.json");
  ASSERT_TRUE(result.is_object()) << where;
  EXPECT_EQ(result["state"], "done") << result;
  EXPECT_EQ(result["workers"], kHosts) << result;
  EXPECT_EQ(result["digest"], CountingDigest(kSamples, 1));
}

TEST(RunHostsTest, TorchrunStartsThem) {
  ExpectRun(Torchrun, {{"TORCHELASTIC_RUN_ID", "a1"}}, "", "torchrun-a1");
}

TEST(RunHostsTest, PalsStartsThem) {
  ExpectRun(Pals, {{"PBS_JOBID", "123"}}, "", "pals-123-f00-1");
}

TEST(RunHostsTest, HydraStartsThemAndTheFolderNamesTheRun) { ExpectRun(Hydra, {}, "run", ""); }

TEST(RunHostsTest, HydraStartsThemInAnAllocationOfPbs) { ExpectRun(HydraInPbs, {}, "run", ""); }

TEST(RunHostsTest, MembersAreBoundToCoresOfTheirOwn) {
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  if (CPU_COUNT(&ours) < 2) GTEST_SKIP() << "there is one core";
  const Folder folder;
  WriteFile(folder / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, /*epochs=*/100'000));
  Program run(MusterCommand({"run", folder / "job.yaml", "--json", "--dir", folder / "run",
                             "--workers", "2", "--bind-cores"}));
  ASSERT_TRUE(run.WaitFor("\"event\":\"step\"")) << run.output();
  std::vector<cpu_set_t> bound;
  for (const pid_t child : run.Children()) {
    std::ifstream comm(absl::StrCat("/proc/", child, "/comm"));
    std::string called;
    if (!std::getline(comm, called) || called != "muster-worker") continue;
    ASSERT_EQ(sched_getaffinity(child, sizeof(cpu_set_t), &bound.emplace_back()), 0);
  }
  ASSERT_EQ(bound.size(), 2u);
  cpu_set_t both;
  CPU_AND(&both, &bound[0], &bound[1]);
  EXPECT_EQ(CPU_COUNT(&both), 0);
  CPU_OR(&both, &bound[0], &bound[1]);
  EXPECT_TRUE(CPU_EQUAL(&both, &ours));
  run.Signal(SIGINT);
  EXPECT_EQ(run.End(), 75) << run.output();
}

// As a rule the members of the journal are back before both hosts are there and the command says
// other numbers.
TEST(RunHostsTest, KilledAllAtOnceItGoesOnWithOtherNumbersOfMembers) {
  constexpr int kEpochs = 60;
  const Folder folder;
  WriteFile(folder / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, kEpochs));
  {
    const Hosts hosts = StartRun(folder, Hydra, {}, {"--dir", "run", "--workers", "2"});
    ASSERT_TRUE(hosts[0]->WaitFor("\"event\":\"checkpoint\"")) << hosts[0]->output();
    for (const auto& host : hosts) host->Signal(SIGKILL);
    for (const auto& host : hosts) host->End();
  }
  const Hosts hosts = StartRun(folder, Hydra, {}, {"--dir", "run", "--workers", "3"});
  for (const auto& host : hosts) EXPECT_EQ(host->End(), 0) << host->output();
  const nlohmann::json result = ReadJson(folder / "run/result.json");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["workers"], 3) << result;
  EXPECT_EQ(result["digest"], CountingDigest(kSamples, kEpochs));
}

// In a copy of what they need of a clone after ./dev build, which both hosts see.
TEST(RunHostsTest, TheLinesOfTheReadmeForAFewHosts) {
  const HostNetwork network(kHosts);
  if (!network.missing().empty()) GTEST_SKIP() << network.missing();
  const Folder clone;
  std::filesystem::create_directories(clone / "build/dev");
  std::filesystem::create_directory_symlink(MUSTER_PROGRAMS, clone / "build/dev/bin");
  std::filesystem::copy(MUSTER_SOURCE "/examples", clone / "examples");
  std::string path;
  Hosts hosts;
  for (const std::string& line : LinesOfReadme()) {
    if (absl::StartsWith(line, "export PATH=")) path = line;
    if (!absl::StrContains(line, "--node-rank")) continue;
    const int host = static_cast<int>(hosts.size());
    ASSERT_LT(host, kHosts) << line;
    const std::string script = absl::StrCat("cd ", clone / "", " && ", path, " && ", line);
    const auto enter = [on = network.On(host), name = absl::StrCat("node-", host)] {
      return on() && unshare(CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0;
    };
    hosts.push_back(
        std::make_unique<Program>(std::vector<std::string>{"/bin/bash", "-c", script}, enter));
  }
  ASSERT_EQ(hosts.size(), 2u);
  for (const auto& host : hosts) EXPECT_EQ(host->End(), 0) << host->output();
  EXPECT_THAT(ReadJson(clone / "shared/one/run.json").value("coordinator", ""),
              StartsWith(network.Address(0)));
  EXPECT_THAT(FolderOfHost(clone / "shared/one", 1), ::testing::EndsWith("/node-1-1"));
  const nlohmann::json result = ReadJson(clone / "shared/one/result.json");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["state"], "done") << result;
}

}  // namespace
}  // namespace muster::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return muster::integration::RunAsProcessOne([] { return RUN_ALL_TESTS(); });
}
