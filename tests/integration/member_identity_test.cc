// A coordinator, an agent and its members with certificates: what they compute is what they compute
// without, also while certificates are renewed (docs/identity.md section 4).
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "lib/identity/identity_folder.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/program.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kSamples = 1009;
constexpr int kLanes = 7;
constexpr std::chrono::seconds kDeadline{100};  // of whatever is waited for

class MemberIdentityTest : public ::testing::Test {
 protected:
  MemberIdentityTest() {
    const absl::Time now = absl::Now();
    const Authority authority = MakeAuthority("c1", now).value();
    EXPECT_TRUE(WriteAuthority(folder_ / "of-coordinator", authority,
                               IssueIdentity(authority, {"c1", CoordinatorPeer{}}, now).value())
                    .ok());
    EXPECT_TRUE(WriteIdentity(folder_ / "of-a",
                              IssueIdentity(authority, {"c1", HostPeer{"a"}}, now).value())
                    .ok());
  }

  // Certificates of members last so long.
  void StartCoordinator(int seconds, const std::string& grpc = "127.0.0.1:0",
                        const std::string& http = "127.0.0.1:0") {
    coordinator_.reset();
    coordinator_.emplace(
        folder_ / "store",
        std::vector<std::string>{"--identity", folder_ / "of-coordinator", "--slots", "0",
                                 "--certificate-seconds", std::to_string(seconds), "--listen", grpc,
                                 "--http", http});
    ASSERT_TRUE(coordinator_->listens());
  }
  void StartAgent() {
    agent_.emplace(MusterCommand({"agent", "--coordinator", coordinator_->grpc(), "--identity",
                                  folder_ / "of-a", "--dir", folder_ / "cluster", "--slots", "3"}));
    ASSERT_TRUE(agent_->WaitFor("joined the cluster")) << agent_->output();
  }
  void EndAgent() {
    agent_->Signal(SIGTERM);
    EXPECT_EQ(agent_->End(), 75) << agent_->output();
  }

  UpCluster::Said Say(std::vector<std::string> words) const {
    words.insert(words.end(), {"--to", coordinator_->http(), "--authority", authority_});
    muster::Program program(MusterCommand(words));
    const int exit_code = program.End();
    return {exit_code, program.output()};
  }
  Json Ask(const std::vector<std::string>& words) const {
    const UpCluster::Said said = Say(words);
    const auto json = Json::parse(said.text, nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json : Json({{"said", said.text}});
  }
  void Submit(const std::string& spec) {
    WriteFile(folder_ / "job.yaml", spec);
    const UpCluster::Said said =
        Say({"submit", folder_ / "job.yaml", "--id", "job", "--set", "workers=2"});
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  Json Status() const { return Ask({"status", "job", "--json"}); }

  std::string DirOfHost() const { return folder_ / "cluster/hosts/a"; }
  // How often members say that in their logs.
  int64_t Said(const std::string& text) const {
    int64_t times = 0;
    for (const auto& entry : fs::recursive_directory_iterator(DirOfHost())) {
      if (entry.path().extension() != ".log") continue;
      std::ifstream file(entry.path());
      const std::string log((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
      for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1))
        ++times;
    }
    return times;
  }
  int FoldersOfMembers() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "of-a-members"))
      if (entry.is_directory()) ++count;
    return count;
  }

  const Folder folder_;
  std::string authority_ = folder_ / "of-coordinator/current/authority.pem";
  std::optional<coordinator::Program> coordinator_;
  std::optional<muster::Program> agent_;
};

TEST_F(MemberIdentityTest, AJobOfMembersWithCertificatesHasTheBitsOfPlainText) {
  constexpr int kEpochs = 20;
  StartCoordinator(3600);
  StartAgent();
  Submit(CountingSpec(kSamples, kLanes, kEpochs));
  const UpCluster::Said watched = Say({"watch", "job"});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  const Json digest = Ask({"digest", "job", "--json"});
  EXPECT_EQ(digest.value("digest", ""), CountingDigest(kSamples, static_cast<float>(kEpochs)))
      << digest;
  const Json audit = Ask({"audit", "job", "--json"});
  EXPECT_TRUE(audit.value("ok", false)) << audit;
  EndAgent();
  EXPECT_EQ(FoldersOfMembers(), 0) << "keys of processes that have ended are gone";
}

// It has nothing but a token; the coordinator makes the authority, and signs the host and its
// members.
TEST_F(MemberIdentityTest, AHostThatHasJoinedRunsMembersWithCertificates) {
  constexpr int kEpochs = 20;
  authority_ = folder_ / "store/identity/current/authority.pem";
  coordinator_.emplace(folder_ / "store", std::vector<std::string>{"--authority", "--join-listen",
                                                                   "127.0.0.1:0", "--slots", "0"});
  ASSERT_TRUE(coordinator_->listens());
  const UpCluster::Said token = Say({"token", "host", "a"});
  ASSERT_EQ(token.exit_code, 0) << token.text;
  ASSERT_TRUE(WriteSecret(folder_ / "token", token.text).ok());
  agent_.emplace(
      MusterCommand({"agent", "--coordinator", coordinator_->grpc(), "--host", "a", "--join",
                     coordinator_->join(), "--join-token-file", folder_ / "token", "--identity",
                     folder_ / "joined", "--dir", folder_ / "cluster", "--slots", "3"}));
  ASSERT_TRUE(agent_->WaitFor("joined the cluster")) << agent_->output();
  Submit(CountingSpec(kSamples, kLanes, kEpochs));
  const UpCluster::Said watched = Say({"watch", "job"});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  const Json digest = Ask({"digest", "job", "--json"});
  EXPECT_EQ(digest.value("digest", ""), CountingDigest(kSamples, static_cast<float>(kEpochs)))
      << digest;
  EndAgent();
}

// In the end no certificate of the beginning holds any more, and all have new sessions with the
// coordinator.
TEST_F(MemberIdentityTest, RenewalCostsNoStepAndNoProcess) {
  constexpr int kSeconds = 8, kWorkers = 2, kRenewals = 3;
  StartCoordinator(kSeconds);
  StartAgent();
  const std::string endless = CountingSpec(kSamples, kLanes, 1'000'000);
  Submit(endless);
  const auto await = [&](const std::string& what, const auto& holds) {
    for (const auto deadline = Clock::now() + kDeadline; !holds(Status());)
      ASSERT_LT(Clock::now(), deadline) << what << "\n" << Status() << agent_->output();
  };
  await("renewals", [&](const Json&) { return Said("was renewed") >= kRenewals * kWorkers; });
  const std::string grpc = coordinator_->grpc(), http = coordinator_->http();
  StartCoordinator(kSeconds, grpc, http);
  const int64_t before = Status().value("step", int64_t{-1});
  await("steps",
        [&](const Json& status) { return status.value("step", int64_t{-1}) > before + 50; });

  ASSERT_EQ(Say({"stop", "job"}).exit_code, 0);
  await("the end", [](const Json& status) { return status.value("state", "") == "stopped"; });
  const Json job = Status();
  EXPECT_EQ(job.value("rewinds", -1), 0) << job;
  EXPECT_EQ(job.value("recoveries", -1), 0) << job;
  const int64_t steps = job.value("step", int64_t{-1});
  const std::string same =
      absl::StrReplaceAll(endless, {{"epochs: 1000000", absl::StrCat("steps: ", steps)}});
  EXPECT_EQ(job.value("digest", ""), UndisturbedDigest(same, folder_ / "undisturbed")) << job;
  EXPECT_EQ(TotalLanes(DirOfHost()), steps * kLanes + job.value("lanes_recomputed", int64_t{-1}))
      << job;
  for (const auto& [worker, lanes] : LanesRun(DirOfHost()))
    EXPECT_EQ(lanes.size(), 1u) << worker << " was started again";
  EndAgent();
}

}  // namespace
}  // namespace muster::integration
