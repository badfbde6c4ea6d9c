// A cluster of three hosts, each a network namespace with an agent: hosts are killed, cut off and
// come back, and each job ends with the bits that it has on one machine.
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/host_network.h"
#include "tests/integration/jobs.h"
#include "tests/integration/starts.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"
#include "tests/support/run_trust.h"

namespace muster::integration {
namespace {

constexpr int kSamples = 1009;
constexpr int kEpochs = 250;

// By the name that its kernel has of it, of at most 15 characters.
std::optional<pid_t> ChildCalled(const Program& program, const std::string& name) {
  for (const pid_t child : program.Children()) {
    std::ifstream comm("/proc/" + std::to_string(child) + "/comm");
    std::string called;
    if (std::getline(comm, called) && called == name) return child;
  }
  return std::nullopt;
}

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!network_.missing().empty()) GTEST_SKIP() << network_.missing();
    WriteFile(folder_ / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, kEpochs));
    up_ = Start(0, {"up", "--listen", network_.Address(0) + ":8080", "--host", "a"});
    ASSERT_TRUE(up_->WaitFor("other hosts join with")) << up_->output();
    agents_.resize(3);
    for (const int host : {1, 2}) Join(host);
  }

  std::unique_ptr<Program> Start(int host, std::vector<std::string> words) const {
    words.insert(words.end(), {"--dir", folder_ / "cluster", "--slots", "2", "--coordinator",
                               network_.Address(0) + ":7070"});
    return std::make_unique<Program>(MusterCommand(words), network_.On(host));
  }
  void Join(int host) {
    if (agents_[static_cast<size_t>(host)] != nullptr) NoteEnd(host);
    agents_[static_cast<size_t>(host)] = Start(host, {"agent", "--host", NameOf(host)});
    ASSERT_TRUE(Agent(host).WaitFor("joined the cluster")) << Agent(host).output();
  }
  Program& Agent(int host) { return *agents_[static_cast<size_t>(host)]; }

  // Logs are asked of the coordinator, not of the folder.
  std::unique_ptr<Program> Asking(std::vector<std::string> words) const {
    const std::string cluster = folder_ / "cluster";
    words.insert(words.end(), {"--to", "https://" + network_.Address(0) + ":8080", "--authority",
                               AuthorityFileOf(cluster)});
    const auto enter = [on = network_.On(0), token = cluster + "/store/identity/admin.token"] {
      return on() && setenv("MUSTER_TOKEN_FILE", token.c_str(), /*overwrite=*/1) == 0;
    };
    return std::make_unique<Program>(MusterCommand(words), enter);
  }
  UpCluster::Said Say(const std::vector<std::string>& words) const {
    const std::unique_ptr<Program> program = Asking(words);
    const int exit_code = program->End();
    return {exit_code, program->output()};
  }
  nlohmann::json Ask(const std::vector<std::string>& words) const {
    const UpCluster::Said said = Say(words);
    const auto json = nlohmann::json::parse(said.text, nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json : nlohmann::json({{"said", said.text}});
  }
  void Submit(const std::string& id, int workers, int epochs = kEpochs) {
    const UpCluster::Said said =
        Say({"submit", folder_ / "job.yaml", "--id", id, "--set",
             "workers=" + std::to_string(workers), "--set", "epochs=" + std::to_string(epochs)});
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  nlohmann::json StatusOf(const std::string& job) const { return Ask({"status", job, "--json"}); }
  int64_t StepOf(const std::string& job) const {
    const nlohmann::json status = StatusOf(job);
    const auto step = status.find("step");
    return step != status.end() && step->is_number() ? step->get<int64_t>() : -1;
  }
  // Until that many more steps are recorded, while it is under way.
  void AwaitSteps(const std::string& job, int64_t more) const {
    const int64_t before = StepOf(job);
    ASSERT_GE(before, 0);
    for (int64_t step = before; step < before + more; step = StepOf(job)) {
      const nlohmann::json status = StatusOf(job);
      const std::string state = status.value("state", "");
      ASSERT_TRUE(state == "checking" || state == "starting" || state == "running" ||
                  state == "recovering")
          << status;
    }
  }
  void ExpectCounted(const std::string& job) const {
    const UpCluster::Said watched = Say({"watch", job});
    EXPECT_EQ(watched.exit_code, 0) << watched.text;
    const nlohmann::json digest = Ask({"digest", job, "--json"});
    EXPECT_EQ(digest.value("digest", ""), CountingDigest(kSamples, static_cast<float>(kEpochs)))
        << job << ": " << digest;
    const nlohmann::json audit = Ask({"audit", job, "--json"});
    EXPECT_TRUE(audit.value("ok", false)) << job << ": " << audit;
  }

  // "job", of which the third host has no member, but room for those of another.
  std::unique_ptr<Program> WatchAJobOnTwoOfThreeHosts() {
    AdoptOrphans();
    Submit("job", 4, 100 * kEpochs);
    AwaitSteps("job", 50);
    auto watch = std::make_unique<Program>(
        MusterCommand({"watch", "job", "--dir", folder_ / "cluster"}), network_.On(0));
    EXPECT_TRUE(watch->WaitFor("step")) << watch->output();
    return watch;
  }
  int OtherHostWithMembers() { return Agent(1).Children().empty() ? 2 : 1; }

  static std::string NameOf(int host) { return std::string(1, static_cast<char>('a' + host)); }
  // The exit code of what ends, or was killed.
  int NoteEnd(int host) {
    Program& program = host == 0 ? *up_ : Agent(host);
    const int code = program.End();
    ended_.push_back({NameOf(host), program.output()});
    return code;
  }

  void ExpectThatAllEnd() {
    for (const int host : {1, 2}) {
      Agent(host).Signal(SIGTERM);
      EXPECT_EQ(NoteEnd(host), 75) << Agent(host).output();
    }
    up_->Signal(SIGINT);
    EXPECT_EQ(NoteEnd(0), 0) << up_->output();
    EXPECT_THAT(StartedTwice(ended_), ::testing::IsEmpty());
  }

  const Folder folder_;
  HostNetwork network_{3};
  std::unique_ptr<Program> up_;
  std::vector<std::unique_ptr<Program>> agents_;
  std::vector<AgentSaid> ended_;  // all agents that there were, in the order of their ends
};

TEST_F(HostsTest, JobsEndWithTheBitsOfOneHostThoughHostsDieAndAreCutOff) {
  AdoptOrphans();
  Submit("one", 3);
  Submit("two", 3);
  AwaitSteps("one", 50);
  const nlohmann::json status = StatusOf("one");
  EXPECT_EQ(status.value("workers", 0), 3) << status;

  Agent(2).Signal(SIGKILL);  // and its members with it
  AwaitSteps("two", 50);
  Join(2);
  AwaitSteps("one", 50);
  network_.Cut(1);
  AwaitSteps("two", 50);
  network_.Heal(1);
  ExpectCounted("one");
  ExpectCounted("two");
  ExpectThatAllEnd();
  EXPECT_GT(StartsIn(ended_).size(), 6U) << "of two jobs with three members, and those of the host";
}

// All have the name of this machine, and networks of their own.
TEST_F(HostsTest, AreNodesOfTheirOwnAndKeepTheTermThatTheyObey) {
  AdoptOrphans();
  std::set<std::string> nodes;
  UpCluster::Said hosts;
  for (int look = 0; look < 500 && nodes.size() < 3; ++look) {  // each is told of a moment later
    hosts = Say({"hosts", "--json"});
    for (const absl::string_view line : absl::StrSplit(hosts.text, '\n', absl::SkipEmpty())) {
      const auto host = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (host.is_object()) nodes.insert(host.value("node", ""));
    }
  }
  EXPECT_EQ(nodes.size(), 3U) << hosts.text;
  for (const std::string name : {"b", "c"}) {
    std::ifstream terms(folder_ / ("cluster/hosts/" + name + "/terms"));
    std::string cluster;
    int64_t term = 0;
    EXPECT_TRUE(terms >> cluster >> term) << name;
    EXPECT_EQ(term, 1) << name;
  }
  ExpectThatAllEnd();
}

TEST_F(HostsTest, WhatWorkersOfAllHostsPrintedIsTold) {
  AdoptOrphans();
  Submit("job", 3);  // on two of three hosts
  ExpectCounted("job");
  for (const std::string name : {"worker-0", "worker-1", "worker-2"}) {
    const std::string line = "takes part in job job";
    UpCluster::Said said;
    for (int look = 0; look < 500 && said.text.find(line) == std::string::npos; ++look)
      said = Say({"logs", "job", "--member", name});
    EXPECT_EQ(said.exit_code, 0) << name;
    EXPECT_THAT(said.text, ::testing::HasSubstr(line)) << name;
  }
  const UpCluster::Said all = Say({"logs", "job"});
  EXPECT_THAT(all.text, ::testing::HasSubstr("worker-2 | ")) << all.text;
  ExpectThatAllEnd();
}

// Each line once, though the coordinator is started again meanwhile.
TEST_F(HostsTest, LinesOfAllHostsAreFollowedUntilTheJobIsOver) {
  AdoptOrphans();
  Submit("job", 3);  // on two of three hosts
  const std::unique_ptr<Program> following = Asking({"logs", "job", "--follow"});
  Program& follow = *following;
  for (const std::string name : {"worker-0", "worker-1", "worker-2"})
    ASSERT_TRUE(follow.WaitFor(name + " | ")) << follow.output();
  Program watch(MusterCommand({"watch", "job", "--dir", folder_ / "cluster"}), network_.On(0));
  ASSERT_TRUE(watch.WaitFor("step")) << watch.output();
  const std::optional<pid_t> coordinator = ChildCalled(*up_, "muster-coordina");
  ASSERT_TRUE(coordinator);
  ASSERT_EQ(kill(*coordinator, SIGKILL), 0);
  EXPECT_EQ(watch.End(), 0) << watch.output();
  EXPECT_EQ(follow.End(), 0) << follow.output();
  std::set<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(follow.output(), '\n', absl::SkipEmpty()))
    EXPECT_TRUE(!absl::StrContains(line, "muster-worker") || lines.insert(std::string(line)).second)
        << "twice: " << line;
  for (const std::string name : {"worker-0", "worker-1", "worker-2"})
    EXPECT_THAT(follow.output(), ::testing::ContainsRegex(name + " \\| .*leaving: "));
  ExpectThatAllEnd();
}

// Members of a host that stays away are started on others, and it finds nothing to do when it comes
// back.
TEST_F(HostsTest, MembersOfALostHostAreStartedOnAnother) {
  const std::unique_ptr<Program> watch = WatchAJobOnTwoOfThreeHosts();
  const int lost = OtherHostWithMembers();
  Agent(lost).Signal(SIGKILL);
  const std::string name = lost == 1 ? "b" : "c";
  EXPECT_TRUE(watch->WaitFor("host " + name + " is lost; its members are placed anew"))
      << watch->output();
  AwaitSteps("job", 50);
  for (int64_t workers = 0; workers < 4;) workers = StatusOf("job").value("workers", 4);
  Join(lost);
  AwaitSteps("job", 50);
  EXPECT_EQ(StatusOf("job").value("rewinds", -1), 0);
  EXPECT_EQ(Say({"cancel", "job"}).exit_code, 0);
  EXPECT_EQ(watch->End(), 67) << watch->output();
  ExpectThatAllEnd();
}

// Its members live and are well.
TEST_F(HostsTest, AHostThatIsRevokedIsOutWithItsMembersAndTheJobGoesOn) {
  const std::unique_ptr<Program> watch = WatchAJobOnTwoOfThreeHosts();
  const int gone = OtherHostWithMembers();
  const UpCluster::Said revoked = Say({"token", "revoke", NameOf(gone)});
  EXPECT_EQ(revoked.exit_code, 0) << revoked.text;
  EXPECT_TRUE(Agent(gone).WaitFor("was revoked")) << Agent(gone).output();
  AwaitSteps("job", 50);
  for (int64_t workers = 0; workers < 4;) workers = StatusOf("job").value("workers", 4);
  const nlohmann::json job = StatusOf("job");
  for (const nlohmann::json& member : job.at("members"))
    EXPECT_NE(member.value("host", ""), NameOf(gone)) << job;
  EXPECT_EQ(job.value("rewinds", -1), 0);
  EXPECT_TRUE(Agent(gone).Children().empty());
  EXPECT_EQ(Say({"cancel", "job"}).exit_code, 0);
  EXPECT_EQ(watch->End(), 67) << watch->output();
  ExpectThatAllEnd();
}

}  // namespace
}  // namespace muster::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return muster::integration::RunAsProcessOne([] { return RUN_ALL_TESTS(); });
}
