// What is done about the hosts of a run over ssh, as a table of what happens.
#include "cli/ssh_hosts.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(SshCommand, StartsTheSameCommandThere) {
  const SshCommand command{.program = "/opt/mu ster",
                           .folder = "/home/me",
                           .words = {"job.yaml", "--set", "a=b c"},
                           .hosts_min = 1,
                           .run_id = "x"};
  const auto words = SshCommandFor(command, {.hosts = {"a", "b"}, .slots = 2}, 1);
  EXPECT_EQ(words.front(), "ssh");
  EXPECT_THAT(words, ::testing::Contains("BatchMode=yes"));
  EXPECT_EQ(words[words.size() - 3], "--");
  EXPECT_EQ(words[words.size() - 2], "b");
  EXPECT_EQ(words.back(),
            "cd /home/me && exec '/opt/mu ster' run job.yaml --set 'a=b c' --nnodes 1:2 "
            "--node-rank 1 --run-id x --nproc-per-node 2 --over-ssh");
}

TEST(SshCommand, WhatNamesHostsIsNotGivenToThem) {
  EXPECT_THAT(WordsForHosts({"job.yaml", "--hosts", "a,b", "--exclude=b", "--env", "A=1", "--dir",
                             "d", "--nodes=1:2", "--json", "--hostfile", "f"}),
              ElementsAre("job.yaml", "--dir", "d", "--json"));
}

class SshHostsTest : public ::testing::Test {
 protected:
  void Make(int hosts_min) {
    hosts_.emplace(std::vector<std::string>{"a", "b", "c"}, hosts_min, seconds(60), now_);
  }
  void BeginAll() {
    for (int i = 0; i < 3; ++i) hosts_->Begun(i);
  }
  std::vector<std::string> Ended(int host, int code) {
    return Words(hosts_->Ended(host, code, now_));
  }
  std::vector<std::string> Signal() { return Words(hosts_->Signal(now_)); }
  std::vector<std::string> After(int s) {
    now_ += seconds(s);
    return Words(hosts_->Tick(now_));
  }
  static std::vector<std::string> Words(const SshHosts::Actions& actions) {
    std::vector<std::string> words;
    for (const SshHosts::Action& action : actions) {
      if (const auto* say = std::get_if<SshHosts::Say>(&action)) words.push_back(say->text);
      if (const auto* stop = std::get_if<SshHosts::TellToStop>(&action))
        words.push_back(absl::StrCat("stop ", stop->host));
      if (const auto* close = std::get_if<SshHosts::CloseInput>(&action))
        words.push_back(absl::StrCat("close ", close->host));
      if (const auto* kill = std::get_if<SshHosts::Kill>(&action))
        words.push_back(absl::StrCat("kill ", kill->host, kill->at_once ? " at once" : ""));
    }
    return words;
  }

  Time now_{};
  std::optional<SshHosts> hosts_;
};

TEST_F(SshHostsTest, TheRunEndsAsTheFirstHostDoes) {
  Make(3);
  BeginAll();
  EXPECT_THAT(Ended(0, 66), IsEmpty());
  EXPECT_THAT(Ended(1, 66), IsEmpty());
  EXPECT_FALSE(hosts_->over());
  EXPECT_THAT(Ended(2, 66), IsEmpty());
  EXPECT_TRUE(hosts_->over());
  EXPECT_EQ(hosts_->exit_code(), 66);
}

TEST_F(SshHostsTest, WhoDoesNotEndThenIsEnded) {
  Make(3);
  BeginAll();
  Ended(0, 0);
  Ended(1, 0);
  EXPECT_THAT(After(74), IsEmpty());
  EXPECT_THAT(After(1), ElementsAre("close 2"));
  EXPECT_THAT(After(89), IsEmpty());
  EXPECT_THAT(After(1), ElementsAre("kill 2"));
  Ended(2, -15);
  EXPECT_TRUE(hosts_->over());
  EXPECT_EQ(hosts_->exit_code(), 0);
}

TEST_F(SshHostsTest, WithoutTheFirstHostAllEndAtOnce) {
  Make(3);
  BeginAll();
  EXPECT_THAT(Ended(0, 255), ElementsAre(HasSubstr("is lost"), "close 1", "close 2"))
      << "nobody is left who would tell them";
  EXPECT_EQ(hosts_->exit_code(), 75);
}

TEST_F(SshHostsTest, AFirstHostThatCannotBeReachedIsAnError) {
  Make(3);
  EXPECT_THAT(Ended(0, 255), ElementsAre(HasSubstr("cannot be reached"), "close 1", "close 2"));
  EXPECT_EQ(hosts_->exit_code(), 1);
}

TEST_F(SshHostsTest, TheRunGoesOnWithoutAnotherOneThatIsLost) {
  Make(3);
  BeginAll();
  hosts_->EnoughHaveJoined();
  EXPECT_THAT(Ended(1, 255), ElementsAre(StartsWith("host b is lost")));
  EXPECT_THAT(Ended(2, 75), IsEmpty()) << "it was drained, and says so itself";
}

TEST_F(SshHostsTest, TooFewThatCanBeReachedEndIt) {
  Make(2);
  EXPECT_THAT(Ended(1, 255), ElementsAre(StartsWith("host b cannot be reached")));
  EXPECT_THAT(Ended(2, 127), ElementsAre(StartsWith("host c cannot be reached"),
                                         HasSubstr("only 1 of at least 2 hosts"), "close 0"));
  EXPECT_EQ(hosts_->exit_code(), 1);
  hosts_->Begun(0);
  Ended(0, 75);
  EXPECT_EQ(hosts_->exit_code(), 1) << "it was told to end";
}

TEST_F(SshHostsTest, ASignalStopsInOrderASecondOneAtOnceAThirdKills) {
  Make(3);
  BeginAll();
  EXPECT_THAT(Signal(), ElementsAre("stop 0"));
  EXPECT_THAT(Signal(), ElementsAre("close 0", "close 1", "close 2"));
  EXPECT_THAT(Signal(), ElementsAre("kill 0", "kill 1", "kill 2"));
  EXPECT_EQ(hosts_->exit_code(), 75);
}

// One that begins there and then finds, say, a library missing does not let the others wait.
TEST_F(SshHostsTest, AHostThatHasBegunAndFailsIsOneFewer) {
  Make(2);
  BeginAll();
  EXPECT_THAT(Ended(1, 64), ElementsAre("host b has ended with exit code 64; what it says stands "
                                        "above"));
  EXPECT_THAT(Ended(2, 255), ElementsAre(StartsWith("host c is lost"),
                                         HasSubstr("only 1 of at least 2 hosts"), "close 0"));
  Ended(0, 75);
  EXPECT_EQ(hosts_->exit_code(), 1);
}

TEST_F(SshHostsTest, OnceEnoughHaveJoinedTheRunIsTheFirstHosts) {
  Make(3);
  BeginAll();
  hosts_->EnoughHaveJoined();
  EXPECT_THAT(Ended(1, 66), IsEmpty()) << "as the run did, perhaps";
  EXPECT_THAT(Ended(2, 255), ElementsAre(StartsWith("host c is lost")));
  Ended(0, 66);
  EXPECT_EQ(hosts_->exit_code(), 66);
}

// The job was done before it could be stopped.
TEST_F(SshHostsTest, TheCodeOfTheFirstHostCountsAfterSignals) {
  Make(3);
  BeginAll();
  Signal();
  Signal();
  Ended(0, 0);
  EXPECT_EQ(hosts_->exit_code(), 0);
}

// As one that is stopped, or hangs in the system.
TEST_F(SshHostsTest, AnSshThatDoesNotEndIsKilled) {
  Make(3);
  BeginAll();
  Signal();
  Signal();
  Ended(1, 75);
  After(1);
  EXPECT_THAT(Signal(), ElementsAre("kill 0", "kill 2"));
  EXPECT_THAT(After(4), IsEmpty());
  Ended(2, -15);
  EXPECT_THAT(After(1), ElementsAre("kill 0 at once"));
  Ended(0, -9);
  EXPECT_TRUE(hosts_->over());
}

TEST_F(SshHostsTest, ASignalBeforeAnythingRunsEndsIt) {
  Make(3);
  EXPECT_THAT(Signal(), ElementsAre("close 0", "close 1", "close 2"));
  EXPECT_EQ(hosts_->exit_code(), 75);
}

TEST_F(SshHostsTest, WhoDoesNotBeginInTimeIsGivenUp) {
  Make(2);
  hosts_->Begun(0);
  hosts_->Begun(2);
  EXPECT_THAT(After(59), IsEmpty());
  EXPECT_THAT(After(1), ElementsAre("kill 1"));
  EXPECT_THAT(Ended(1, -15), ElementsAre(StartsWith("host b cannot be reached")));
}

}  // namespace
}  // namespace muster::cli
