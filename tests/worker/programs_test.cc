// muster-worker and muster-server as programs: bad words, ports, signals, strangers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/version.h"
#include "tests/support/json_lines.h"
#include "tests/support/member_identity.h"
#include "tests/support/program.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Programs : public testing::TestWithParam<const char*> {
 protected:
  // Arguments that are right, then others, which win.
  std::vector<std::string> Arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {std::string(MUSTER_BIN_DIR) + "/" + GetParam(),
                                          "--coordinator",
                                          "127.0.0.1:1",
                                          "--job",
                                          "j",
                                          "--identity",
                                          identity_};
    if (more.empty() || more[0] != "--name") {
      arguments.push_back("--name");
      arguments.push_back("member-0");
    }
    if (std::string(GetParam()) == "muster-worker") {
      arguments.push_back("--lane-count");
      arguments.push_back(testing::TempDir() + "programs-" + std::to_string(getpid()) + ".lanes");
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void ExpectRefused(const std::vector<std::string>& more, int code, const std::string& reason) {
    Program program(Arguments(more));
    EXPECT_EQ(program.End(), code) << reason;
    EXPECT_THAT(program.output(), HasSubstr(reason));
  }

  const std::string identity_ = MakeMemberIdentity(
      testing::TempDir() + "programs-" + std::to_string(getpid()) + ".identity", "j", "member-0");
};

// A port of this machine that somebody listens at.
class Listening {
 public:
  Listening() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~Listening() { close(fd_); }
  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

TEST_P(Programs, BadWordsEndWith64AndSayWhatToDo) {
  ExpectRefused({"--no-such-flag"}, 64, "no-such-flag");
  ExpectRefused({"--name", "../escape"}, 64, "--name");
  ExpectRefused({"--lease-ms", "499"}, 64, "--lease-ms: 500 to 600000 is allowed");
  ExpectRefused({"--lease-ms", "600001"}, 64, "--lease-ms: 500 to 600000 is allowed");
  ExpectRefused({"--thread-patience", "0"}, 64, "--thread-patience: 1 to 86400 is allowed");
  ExpectRefused({"--coordinator-timeout", "0"}, 64, "--coordinator-timeout");
  ExpectRefused({"--listen", "nonsense"}, 64, "--listen");
  ExpectRefused({"--fail-at", "nowhere:1"}, 64, "half_sent");
  ExpectRefused({"--node", ""}, 64, "--node: is empty");
  ExpectRefused({"--log-level", "loud"}, 64, "use debug, info, warning or error");
}

// Those of bench/plaintext, which nobody installs.
TEST_P(Programs, PlainTextIsForLoopbackAlone) {
  const std::string program = absl::StrCat(MUSTER_PLAINTEXT_DIR, "/", GetParam());
  for (const std::string flag : {"--listen", "--metrics", "--coordinator"}) {
    std::vector<std::string> command = {program, "--job", "j", "--name", "m", flag, "0.0.0.0:7"};
    if (flag != "--coordinator") command.insert(command.end(), {"--coordinator", "127.0.0.1:1"});
    Program refused(command);
    EXPECT_EQ(refused.End(), 64) << flag;
    EXPECT_THAT(refused.output(), AllOf(HasSubstr(flag), HasSubstr("0.0.0.0:7 refused"),
                                        HasSubstr("without certificates")));
  }
}

TEST_P(Programs, APortInUseIsAnError) {
  const Listening other;
  ExpectRefused({"--listen", other.address()}, 1, other.address());
  ExpectRefused({"--metrics", other.address()}, 1, other.address());
}

TEST_P(Programs, WithoutACoordinatorItFailsAfterItsPatience) {
  Program program(Arguments({"--coordinator-timeout", "1", "--lease-ms", "500"}));
  EXPECT_EQ(program.End(), 1) << "not a success: who starts it tries again";
  EXPECT_THAT(program.output(), HasSubstr("no coordinator at 127.0.0.1:1"));
}

TEST_P(Programs, LeavesCleanlyWhenTold) {
  for (int signal : {SIGTERM, SIGINT}) {
    Program program(Arguments({"--report-fd", "1"}));
    ASSERT_TRUE(program.WaitFor("\"event\":\"metrics\"")) << program.output();
    ASSERT_TRUE(program.WaitFor("metrics at")) << "it runs";
    program.Signal(signal);
    EXPECT_EQ(program.End(), 143);
    EXPECT_THAT(program.output(), HasSubstr("leaving"));
  }
}

// A launcher signals all processes of a step; their agent decides what each of them does.
TEST_P(Programs, HeedsItsAgentAlone) {
  Program program(Arguments({"--report-fd", "1"}));
  ASSERT_TRUE(program.WaitFor("metrics at")) << program.output();
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    Program stranger({"/bin/kill", absl::StrCat("-", signal), absl::StrCat(program.pid())});
    EXPECT_EQ(stranger.End(), 0) << stranger.output();
    EXPECT_TRUE(program.WaitFor(absl::StrCat("signal ", signal, " of process")))
        << "a stranger has ended it: " << program.output();
  }
  program.Signal(SIGINT);
  EXPECT_EQ(program.End(), 143);
  EXPECT_THAT(program.output(), HasSubstr("leaving"));
}

// It ends its own watch with that signal.
TEST_P(Programs, ASignalOfOthersDoesNotMakeItDeaf) {
  Program program(Arguments({}));
  ASSERT_TRUE(program.WaitFor("metrics at")) << program.output();
  program.Signal(SIGUSR1);
  program.Signal(SIGTERM);
  ASSERT_TRUE(program.WaitFor("leaving")) << "it is deaf: " << program.output();
  EXPECT_EQ(program.End(), 143);
}

TEST_P(Programs, LogsAsItsOptionsSay) {
  const auto log_of = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--report-fd", "1"});
    Program program(Arguments(options));
    EXPECT_TRUE(program.WaitFor("\"event\":\"metrics\"")) << program.output();
    program.Signal(SIGTERM);
    EXPECT_EQ(program.End(), 143);
    return program.output();
  };
  const std::string name = GetParam();
  EXPECT_THAT(log_of({}), HasSubstr(absl::StrCat(" info ", name, " member-0 leaving")));
  const std::string json = log_of({"--log-json"});
  EXPECT_THAT(json, HasSubstr(absl::StrCat(R"("level":"info","program":")", name,
                                           R"(","member":"member-0","text":"leaving)")));
  EXPECT_EQ(LineThatIsNoJson(json), "");
  EXPECT_THAT(log_of({"--log-level", "warning"}), Not(HasSubstr("leaving")));
}

TEST_P(Programs, WhatIsWrongWithItsCommandLineIsALineOfItsLog) {
  const std::string program = absl::StrCat(MUSTER_BIN_DIR, "/", GetParam());
  for (const char* wrong : {"--bogus", "--log-level=loud", "--node="}) {
    Program refused({program, "--log-json", wrong});
    EXPECT_EQ(refused.End(), 64);
    EXPECT_EQ(LineThatIsNoJson(refused.output()), "");
    EXPECT_THAT(refused.output(), HasSubstr(absl::StrCat(R"("level":"error","program":")",
                                                         GetParam(), R"(","text":")")));
  }
  Program plain({program, "--bogus"});
  EXPECT_EQ(plain.End(), 64);
  EXPECT_THAT(plain.output(), Not(HasSubstr("\"text\"")));
}

TEST_P(Programs, TellsItsVersion) {
  Program program(Arguments({"--version"}));
  EXPECT_EQ(program.End(), 0);
  EXPECT_EQ(program.output(), absl::StrCat(kVersion, "\n"));
}

TEST(Tasks, APlugInThatCannotBeReadEndsItWith64AndTheOthersAreListed) {
  const std::string folder = testing::TempDir() + "programs-plugins-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto tasks = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {std::string(MUSTER_BIN_DIR) + "/muster-worker", "tasks",
                                      "--plugins", folder};
    words.insert(words.end(), more.begin(), more.end());
    Program program(words);
    const int code = program.End();
    return std::pair(code, program.output());
  };
  EXPECT_EQ(tasks({}).first, 0) << "a folder without any";
  std::ofstream(folder + "/broken.so") << "no library";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--json"}, {"counting"}, {"counting", "--json"}}) {
    const auto [code, said] = tasks(more);
    EXPECT_EQ(code, 64) << said;
    EXPECT_THAT(said, AllOf(HasSubstr("broken.so"), HasSubstr("counting")));
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Both, Programs, testing::Values("muster-worker", "muster-server"));

}  // namespace
}  // namespace muster
