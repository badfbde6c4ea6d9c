// `muster run` under real launchers, each with all its hosts on this machine: mpirun and Slurm;
// ssh_test.cc has sshd.
// `./dev test launchers` installs them; where one is missing its tests say so and are skipped.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/readme_lines.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSamples = 1009;
constexpr int kLanes = 7;
constexpr int kManyEpochs = 20;    // long enough to be caught while it runs
constexpr int kLongEpochs = 5000;  // it is stopped long before its end

bool CanRun(const std::string& program) { return access(program.c_str(), X_OK) == 0; }

class LaunchersTest : public ::testing::Test {
 protected:
  LaunchersTest() {
    WriteFile(folder_ / "once.yaml", CountingSpec(kSamples, kLanes, /*epochs=*/1));
    WriteFile(folder_ / "many.yaml", CountingSpec(kSamples, kLanes, kManyEpochs));
    WriteFile(folder_ / "long.yaml", CountingSpec(kSamples, kLanes, kLongEpochs));
  }

  std::vector<std::string> Run(const std::string& spec, const std::string& dir,
                               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"run", folder_ / (spec + ".yaml"), "--dir", folder_ / dir,
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return MusterCommand(words);
  }
  // mpirun would end all when one of them ends other than with 0, and tells nobody of it where it
  // is asked not to.
  std::unique_ptr<Program> Mpirun(int ranks, const std::vector<std::string>& run) const {
    std::vector<std::string> words = {"/usr/bin/mpirun",
                                      "--allow-run-as-root",
                                      "--oversubscribe",
                                      "--bind-to",
                                      "none",
                                      "-mca",
                                      "orte_abort_on_non_zero_status",
                                      "0",
                                      "-n",
                                      absl::StrCat(ranks)};
    words.insert(
        words.end(),
        {"/bin/sh", "-c",
         absl::StrCat("\"$@\"; echo $? >", folder_ / "exit-code-$OMPI_COMM_WORLD_RANK"), "sh"});
    words.insert(words.end(), run.begin(), run.end());
    return std::make_unique<Program>(words);
  }
  // Of the ranks of mpirun, which has ended.
  std::vector<int> ExitCodes(int ranks) const {
    std::vector<int> codes;
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream in(folder_ / absl::StrCat("exit-code-", rank));
      in >> codes.emplace_back(-1);
    }
    return codes;
  }
  void ExpectResult(const std::string& dir, const std::string& state, int epochs) {
    const nlohmann::json result = ReadJson(folder_ / (dir + "/result.json"));
    ASSERT_TRUE(result.is_object()) << dir;
    EXPECT_EQ(result["state"], state) << result;
    if (state != "done") return;
    EXPECT_EQ(result["digest"], CountingDigest(kSamples, static_cast<float>(epochs)));
    EXPECT_EQ(result["rewinds"], 0);
    const nlohmann::json audit = Audit(folder_ / dir, result["job"]);
    EXPECT_EQ(audit["ok"], true) << audit;
  }
  void ExpectExitCode(const std::string& dir, int exit_code) {
    EXPECT_EQ(ReadJson(folder_ / (dir + "/run.json"))["exit_code"], exit_code);
  }

  Folder folder_;
};

class MpirunTest : public LaunchersTest {
 protected:
  void SetUp() override {
    if (!CanRun("/usr/bin/mpirun")) GTEST_SKIP() << "mpirun is missing: ./dev test launchers";
  }
};

TEST_F(MpirunTest, TrainsOnAllRanks) {
  const auto mpirun = Mpirun(3, Run("once", "run", {"--workers", "3"}));
  EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
  ExpectResult("run", "done", 1);
  ExpectExitCode("run", 0);
  EXPECT_NE(FolderOfHost(folder_ / "run", 1), "");
  EXPECT_NE(FolderOfHost(folder_ / "run", 2), "");
}

// The work of one host that is told to end is done by the others, and nobody goes back.
TEST_F(MpirunTest, SigtermToOneHostDrainsIt) {
  const auto mpirun = Mpirun(3, Run("many", "run", {"--workers", "3"}));
  ASSERT_TRUE(mpirun->WaitFor("\"event\":\"step\"")) << mpirun->output();
  kill(PidIn(FolderOfHost(folder_ / "run", 2)), SIGTERM);
  EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
  EXPECT_THAT(ExitCodes(3), ElementsAre(0, 0, 75));
  ExpectResult("run", "done", kManyEpochs);
  ExpectExitCode("run", 0);
}

TEST_F(MpirunTest, SigtermToAllStopsAfterACheckpointAndTheSameCommandGoesOn) {
  const std::vector<std::string> run = Run("many", "run", {"--workers", "3"});
  {
    const auto mpirun = Mpirun(3, run);
    ASSERT_TRUE(mpirun->WaitFor("\"event\":\"step\"")) << mpirun->output();
    for (const std::string& host : {std::string(folder_ / "run"), FolderOfHost(folder_ / "run", 1),
                                    FolderOfHost(folder_ / "run", 2)})
      kill(PidIn(host), SIGTERM);
    EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
    EXPECT_THAT(ExitCodes(3), Each(75));
  }
  ExpectResult("run", "stopped", 0);
  ExpectExitCode("run", 75);
  const auto mpirun = Mpirun(3, run);
  EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
  ExpectResult("run", "done", kManyEpochs);
}

// As Slurm does with --signal: no host takes its members from the last checkpoint.
TEST_F(MpirunTest, AWarningToAllStopsAfterACheckpointWithAllMembers) {
  const auto mpirun = Mpirun(3, Run("many", "run", {"--workers", "3"}));
  ASSERT_TRUE(mpirun->WaitFor("\"event\":\"step\"")) << mpirun->output();
  for (const std::string& host : {FolderOfHost(folder_ / "run", 1),
                                  FolderOfHost(folder_ / "run", 2), std::string(folder_ / "run")})
    kill(PidIn(host), SIGUSR1);
  EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
  EXPECT_THAT(ExitCodes(3), Each(75));
  ExpectResult("run", "stopped", 0);
  EXPECT_THAT(mpirun->output(), Not(HasSubstr("is to leave")));
}

// Each host reads the job for itself: what is wrong with it ends all, and no host waits.
TEST_F(MpirunTest, ABadJobEndsAllHosts) {
  const auto mpirun = Mpirun(2, Run("once", "run", {"--set", "batch=0"}));
  EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
  EXPECT_THAT(ExitCodes(2), Each(64));
}

TEST_F(MpirunTest, TellsWhoHasNotJoined) {
  Program alone(Run("once", "run",
                    {"--nnodes", "3", "--node-rank", "0", "--join-timeout", "10", "--coordinator",
                     "127.0.0.1:0"}));
  EXPECT_EQ(alone.End(), 75);
  EXPECT_THAT(alone.output(), HasSubstr("without 1, 2"));
}

TEST_F(MpirunTest, ShowsWhatAllMembersPrint) {
  std::vector<std::string> run = Run("once", "run", {"--workers", "2", "--logs"});
  std::erase(run, "--json");
  const auto mpirun = Mpirun(2, run);
  EXPECT_EQ(mpirun->End(), 0) << mpirun->output();
  EXPECT_THAT(mpirun->output(), HasSubstr("worker-0 | "));
  EXPECT_THAT(mpirun->output(), HasSubstr("worker-1 | "));
}

class SlurmTest : public LaunchersTest {
 protected:
  void SetUp() override {
    for (const char* program : {"/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"})
      if (!CanRun(program)) GTEST_SKIP() << program << " is missing: ./dev test launchers";
    if (geteuid() != 0) GTEST_SKIP() << "Slurm's daemons need root";
    // munged is a user of its own, who has to get to its files in there.
    chmod((folder_ / "").c_str(), 0711);
  }
  // Runs a script of bash in an allocation of so many nodes with two tasks each. Nothing but srun
  // says there what is where.
  std::unique_ptr<Program> Allocation(int nodes, const std::string& script) {
    WriteFile(folder_ / "script", "set -eu\n" + script);
    return std::make_unique<Program>(std::vector<std::string>{
        MUSTER_SLURM "/in-slurm", folder_ / absl::StrCat("slurm", ++slurms_), absl::StrCat(nodes),
        "salloc", absl::StrCat("-N", nodes), "--ntasks-per-node=2", "bash", folder_ / "script"});
  }
  std::string Srun(const std::string& options, const std::string& spec,
                   const std::string& dir) const {
    return absl::StrCat("srun ", options, " ",
                        absl::StrJoin(Run(spec, dir, {"--workers", "2"}), " "));
  }

  // Each is new: one that finds the state of another takes its nodes for lost.
  int slurms_ = 0;
};

// Two steps of one allocation at once, with several hosts on each node: the second one is begun and
// done, on another node than the allocation's first, while the first one runs.
TEST_F(SlurmTest, TwoStepsOfAnAllocationAtOnce) {
  const std::string first_out = folder_ / "first.out";
  const auto slurm = Allocation(
      3, absl::StrCat("mkfifo ", first_out, "\n", Srun("--overlap", "long", "first"), " >",
                      first_out, " &\nfirst=$! second= code=0\nwhile read -r line; do\n",
                      "  [[ -z $second && $line == *'\"event\":\"step\"'* ]] || continue\n  (",
                      Srun("--overlap -N1 -n2 -w n2", "once", "second"), " </dev/null >",
                      folder_ / "second.out",
                      " 2>&1\n   scancel -s USR1 $SLURM_JOB_ID.0) &\n  second=$!\ndone <",
                      first_out, "\nwait $second\nwait $first || code=$?\n[[ $code == 75 ]]\n"));
  EXPECT_EQ(slurm->End(), 0) << slurm->output();
  ExpectResult("second", "done", 1);
  ExpectExitCode("second", 0);
  ExpectResult("first", "stopped", 0);
  ExpectExitCode("first", 75);
  const nlohmann::json result = ReadJson(folder_ / "first/result.json");
  EXPECT_EQ(result["lanes_recomputed"], 0) << result;
  const std::string steps = absl::StrCat("steps: ", result["steps"].get<int64_t>());
  const std::string undisturbed =
      absl::StrReplaceAll(CountingSpec(kSamples, kLanes, kLongEpochs),
                          {{absl::StrCat("epochs: ", kLongEpochs), steps}});
  EXPECT_EQ(result["digest"], UndisturbedDigest(undisturbed, folder_ / "undisturbed"));
  const nlohmann::json first = ReadJson(folder_ / "first/run.json");
  const nlohmann::json second = ReadJson(folder_ / "second/run.json");
  EXPECT_THAT(std::string(first["run_id"]), HasSubstr("slurm-"));
  for (const char* field : {"run_id", "coordinator", "join"})
    EXPECT_NE(first[field], second[field]) << field;
  EXPECT_NE(result["job"], ReadJson(folder_ / "second/result.json")["job"]);
  EXPECT_NE(FolderOfHost(folder_ / "first", 5), "");
}

// Slurm sends a signal to every process of a step, to members and the coordinator, too.
TEST_F(SlurmTest, SignalsToAStepStopItAfterACheckpointAndTheSameStepGoesOn) {
  for (const char* signal : {"TERM", "USR1"}) {
    const std::string dir = absl::StrCat("run", signal);
    const std::string run = Srun("-n2", "many", dir);
    const auto slurm = Allocation(
        1, absl::StrCat("mkfifo ", folder_ / dir, ".out\n", run, " >", folder_ / dir,
                        ".out &\nstep=$! signal=", signal, " code=0\nwhile read -r line; do\n",
                        "  [[ -n $signal && $line == *'\"event\":\"step\"'* ]] || continue\n",
                        "  scancel -s $signal $SLURM_JOB_ID.0\n  signal=\ndone <", folder_ / dir,
                        ".out\nwait $step || code=$?\n[[ $code == 75 ]]\n", run, "\n"));
    EXPECT_EQ(slurm->End(), 0) << slurm->output();
    ExpectResult(dir, "done", kManyEpochs);
    EXPECT_EQ(ReadJson(folder_ / dir + "/result.json")["lanes_recomputed"], 0);
  }
}

// As a person types them in a clone after ./dev build, here a copy of its examples. Those for a few
// hosts are in run_hosts_test.cc.
TEST_F(SlurmTest, TheLinesOfTheReadme) {
  if (!CanRun("/usr/bin/mpirun")) GTEST_SKIP() << "mpirun is missing: ./dev test launchers";
  const std::vector<std::string> lines = LinesOfReadme();
  ASSERT_GE(lines.size(), 6u);
  std::string script = absl::StrCat("cd ", folder_ / "", "\nmkdir -p build/dev\nln -s ",
                                    MUSTER_PROGRAMS, " build/dev/bin\ncp -r ", MUSTER_SOURCE,
                                    "/examples .\nexport OMPI_ALLOW_RUN_AS_ROOT=1 "
                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n");
  for (const std::string& line : lines) {
    if (absl::StrContains(line, "--node-rank")) continue;
    // Slurm would start its ranks: it is for clusters without one.
    if (absl::StartsWith(line, "mpirun"))
      script += "env -u SLURM_JOB_ID -u SLURM_JOBID -u SLURM_NODELIST ";
    absl::StrAppend(&script, line, "\n");
  }
  const auto slurm = Allocation(4, script);
  EXPECT_EQ(slurm->End(), 0) << script << slurm->output();
  int runs = 0;  // of four hosts, and not four of one
  for (const auto& run : std::filesystem::directory_iterator(folder_ / "muster-runs")) {
    if (ReadJson(run.path() / "run.json").is_discarded()) continue;
    ++runs;
    ExpectResult(std::filesystem::relative(run.path(), folder_ / ""), "done", /*epochs=*/2);
    EXPECT_NE(FolderOfHost(run.path(), 3), "") << run.path();
  }
  EXPECT_EQ(runs, 2) << "under Slurm, and under Open MPI";
}

}  // namespace
}  // namespace muster::integration
