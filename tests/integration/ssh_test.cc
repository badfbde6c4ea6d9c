// `muster run --hosts` over Debian's sshd, one on each of three hosts that are network namespaces,
// from a fourth. Keys and configuration are the test's own; where one of the programs or namespaces
// are missing it says so and is skipped.
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/host_network.h"
#include "tests/integration/jobs.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kHosts = 3;
constexpr int kLogin = 3;  // from where they are started
constexpr int kSamples = 1009;
constexpr int kLanes = 7;
constexpr int kManyEpochs = 20;  // long enough to be caught while it runs

class SshTest : public ::testing::Test {
 protected:
  SshTest() : network_(kHosts + 1) {}

  void SetUp() override {
    if (!network_.missing().empty()) GTEST_SKIP() << network_.missing();
    for (const char* program : {"/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen"})
      if (access(program, X_OK) != 0)
        GTEST_SKIP() << program << " is missing: ./dev test launchers";
    // Debian's sshd wants it there, and empty.
    mkdir("/run/sshd", 0755);
    WriteFile(folder_ / "once.yaml", CountingSpec(kSamples, kLanes, /*epochs=*/1));
    WriteFile(folder_ / "many.yaml", CountingSpec(kSamples, kLanes, kManyEpochs));
    MakeKeys();
    for (int host = 0; host < kHosts; ++host) StartSshd(host);
    MakeConfiguration();
  }

  void MakeKeys() const {
    for (const char* name : {"host_key", "user_key"}) {
      Program keygen(
          {"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder_ / name});
      ASSERT_EQ(keygen.End(), 0) << keygen.output();
    }
    std::filesystem::copy_file(folder_ / "user_key.pub", folder_ / "authorized_keys");
  }

  static std::string NameOf(int host) { return std::string(1, static_cast<char>('a' + host)); }

  // Each machine has a name of its own.
  void StartSshd(int host) {
    WriteFile(folder_ / "sshd_config",
              absl::StrCat("HostKey ", folder_ / "host_key", "\nAuthorizedKeysFile ",
                           folder_ / "authorized_keys",
                           "\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPidFile none\n"
                           "PasswordAuthentication no\n"));
    const auto enter = [on = network_.On(host), name = "node-" + NameOf(host)] {
      return on() && unshare(CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0;
    };
    sshds_.push_back(std::make_unique<Program>(
        std::vector<std::string>{"/usr/sbin/sshd", "-D", "-e", "-f", folder_ / "sshd_config"},
        enter));
    ASSERT_TRUE(sshds_.back()->WaitFor("Server listening on 0.0.0.0")) << sshds_.back()->output();
  }

  // A person's ~/.ssh/config, by an ssh that comes first in PATH: it takes their home from the
  // table of users, which is not ours to change.
  void MakeConfiguration() const {
    std::ifstream key(folder_ / "host_key.pub");
    const std::string host_key((std::istreambuf_iterator<char>(key)),
                               std::istreambuf_iterator<char>());
    std::string config = absl::StrCat("IdentityFile ", folder_ / "user_key",
                                      "\nStrictHostKeyChecking yes\nHostKeyAlias all\n"
                                      "UserKnownHostsFile ",
                                      folder_ / "known_hosts", "\n");
    for (int host = 0; host < kHosts; ++host)
      absl::StrAppend(&config, "Host ", NameOf(host), "\n  HostName ", network_.Address(host),
                      "\n");
    WriteFile(folder_ / "config", config);
    WriteFile(folder_ / "known_hosts", "all " + host_key);
    std::filesystem::create_directory(folder_ / "bin");
    WriteFile(folder_ / "bin/ssh",
              absl::StrCat("#!/bin/sh\nexec /usr/bin/ssh -F ", folder_ / "config", " \"$@\"\n"));
    chmod((folder_ / "bin/ssh").c_str(), 0755);
  }

  std::unique_ptr<Program> Run(const std::string& spec, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "run",       folder_ / (spec + ".yaml"), "--dir", folder_ / "run",
        "--workers", absl::StrCat(kHosts),       "--set", "workers={min: 1, max: 3}",
        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Program>(
        MusterCommand(words), [on = network_.On(kLogin), path = (folder_ / "bin") + ":/usr/bin"] {
          return on() && setenv("PATH", path.c_str(), 1) == 0;
        });
  }
  // Of each process that this host has started.
  std::vector<std::string> Environments(int host) const {
    std::vector<std::string> all;
    for (const pid_t child : ChildrenOf(PidIn(FolderOfHost(folder_ / "run", host)))) {
      std::ifstream in(absl::StrCat("/proc/", child, "/environ"));
      all.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return all;
  }
  void ExpectResult(const std::string& state, int epochs) {
    const nlohmann::json result = ReadJson(folder_ / "run/result.json");
    ASSERT_TRUE(result.is_object());
    EXPECT_EQ(result["state"], state) << result;
    if (state != "done") return;
    EXPECT_EQ(result["digest"], CountingDigest(kSamples, static_cast<float>(epochs)));
    EXPECT_EQ(result["rewinds"], 0);
  }

  Folder folder_;
  HostNetwork network_;
  std::vector<std::unique_ptr<Program>> sshds_;
};

TEST_F(SshTest, TrainsOnAllHostsWithTheEnvironmentThatIsNamed) {
  const auto run = Run("many", {"--hosts", "a,b,c", "--env", "MUSTER_TEST_A=one two"});
  ASSERT_TRUE(run->WaitFor("\"event\":\"step\"")) << run->output();
  for (int host = 0; host < kHosts; ++host)
    EXPECT_THAT(Environments(host), AllOf(Not(IsEmpty()), Each(HasSubstr("MUSTER_TEST_A=one two"))))
        << host;
  EXPECT_EQ(run->End(), 0) << run->output();
  EXPECT_THAT(run->output(), Not(HasSubstr("muster-run-begun")));
  ExpectResult("done", kManyEpochs);
}

TEST_F(SshTest, CtrlCStopsAfterACheckpointAndTheSameCommandGoesOn) {
  {
    const auto run = Run("many", {"--hosts", "a,b,c"});
    ASSERT_TRUE(run->WaitFor("\"event\":\"step\"")) << run->output();
    run->Signal(SIGINT);
    EXPECT_EQ(run->End(), 75) << run->output();
  }
  ExpectResult("stopped", 0);
  const auto run = Run("many", {"--hosts", "a,b,c"});
  EXPECT_EQ(run->End(), 0) << run->output();
  ExpectResult("done", kManyEpochs);
}

TEST_F(SshTest, NothingOutlivesTheCommandThatStartedIt) {
  std::vector<pid_t> pids;
  {
    const auto run = Run("many", {"--hosts", "a,b,c"});
    ASSERT_TRUE(run->WaitFor("\"event\":\"step\"")) << run->output();
    for (int host = 0; host < kHosts; ++host)
      pids.push_back(PidIn(FolderOfHost(folder_ / "run", host)));
    const std::vector<int> watches = Watch(pids);
    run->Signal(SIGKILL);
    ExpectGone(watches);
  }
  const auto run = Run("many", {"--hosts", "a,b,c"});
  EXPECT_EQ(run->End(), 0) << run->output();
  ExpectResult("done", kManyEpochs);
}

TEST_F(SshTest, AHostWhoseConnectionEndsLeavesAndTheRunGoesOnWithoutIt) {
  const auto run = Run("many", {"--hosts", "a,b,c"});
  ASSERT_TRUE(run->WaitFor("\"event\":\"step\"")) << run->output();
  const std::vector<pid_t> connections = run->Children();
  ASSERT_EQ(connections.size(), static_cast<size_t>(kHosts)) << run->output();
  const std::vector<int> watches = Watch({PidIn(FolderOfHost(folder_ / "run", 2))});
  kill(connections.back(), SIGKILL);
  ExpectGone(watches);
  const size_t after = run->output().size();
  EXPECT_TRUE(run->WaitFor("\"event\":\"step\"", after)) << "it was over before: " << run->output();
  EXPECT_EQ(run->End(), 0) << run->output();
  EXPECT_THAT(run->output(), HasSubstr("muster: host c"));
  ExpectResult("done", kManyEpochs);  // and nobody went back
}

TEST_F(SshTest, AHostThatCannotBeReachedIsNamed) {
  {
    const auto run = Run("once", {"--hosts", "a,b,nowhere"});
    EXPECT_EQ(run->End(), 1) << run->output();
    EXPECT_THAT(run->output(), HasSubstr("host nowhere cannot be reached"));
    EXPECT_THAT(run->output(), HasSubstr("only 2 of at least 3 hosts are left"));
  }
  const auto fewer = Run("once", {"--hosts", "a,b,nowhere", "--nnodes", "2:3"});
  EXPECT_EQ(fewer->End(), 0) << fewer->output();
  ExpectResult("done", 1);
}

TEST_F(SshTest, AHostFileWithoutAHost) {
  WriteFile(folder_ / "hosts", "a slots=2  # the first\nnowhere slots=2\nb slots=2\n");
  const auto run = Run("once", {"--hostfile", folder_ / "hosts", "--exclude", "nowhere"});
  EXPECT_EQ(run->End(), 0) << run->output();
  ExpectResult("done", 1);
  EXPECT_NE(FolderOfHost(folder_ / "run", 1), "");
}

}  // namespace
}  // namespace muster::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return muster::integration::RunAsProcessOne([] { return RUN_ALL_TESTS(); });
}
