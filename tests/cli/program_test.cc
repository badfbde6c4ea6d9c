// The program itself with its real coordinator: what it leaves behind when it ends, and when it is
// killed.
#include "tests/support/program.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/version.h"
#include "tests/support/json_lines.h"
#include "tests/support/terminal.h"
#include "tests/support/text_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Muster(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MUSTER_PROGRAM);
  return arguments;
}

TEST(MusterTest, CtrlCEndsAnIdleClusterAndAllOfIt) {
  Program program(Muster({"up", "--dir", MakeFolder(), "--listen", "127.0.0.1:0"}));
  ASSERT_TRUE(program.WaitFor("ready at")) << program.output();
  const std::vector<int> watches = Watch(program.Children());
  ASSERT_EQ(watches.size(), 1u) << "the coordinator";
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait(), 0);
  ExpectGone(watches);
}

TEST(MusterTest, AKilledClusterLeavesNothingBehind) {
  Program program(Muster({"up", "--dir", MakeFolder(), "--listen", "127.0.0.1:0"}));
  ASSERT_TRUE(program.WaitFor("ready at")) << program.output();
  const std::vector<int> watches = Watch(program.Children());
  ASSERT_EQ(watches.size(), 1u) << "the coordinator";
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait(), -SIGKILL);
  ExpectGone(watches);
}

TEST(MusterTest, AKilledCoordinatorComesBack) {
  Program program(Muster({"up", "--dir", MakeFolder(), "--listen", "127.0.0.1:0"}));
  ASSERT_TRUE(program.WaitFor("ready at")) << program.output();
  const std::vector<pid_t> before = program.Children();
  ASSERT_EQ(before.size(), 1u);
  kill(before[0], SIGKILL);
  ASSERT_TRUE(program.WaitFor("coordinator was killed by SIGKILL; it starts again in 0.2 s"))
      << program.output();
  EXPECT_TRUE(program.WaitFor("ready at", program.output().find("SIGKILL"))) << program.output();
}

TEST(MusterTest, OneFolderOneCluster) {
  const std::string folder = MakeFolder();
  Program first(Muster({"up", "--dir", folder, "--listen", "127.0.0.1:0"}));
  ASSERT_TRUE(first.WaitFor("ready at")) << first.output();
  Program second(Muster({"up", "--dir", folder, "--listen", "127.0.0.1:0"}));
  EXPECT_TRUE(second.WaitFor("is in use by another muster")) << second.output();
  EXPECT_EQ(second.Wait(), 64);
}

TEST(MusterTest, AFolderInWhichNothingEverRanIsAWrongWord) {
  const std::string folder = MakeFolder();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"list"},
                                                {"status", "j"},
                                                {"history", "j"},
                                                {"plot", "-o", folder + "/x.svg"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--dir", folder});
    Program refused(Muster(all));
    EXPECT_EQ(refused.End(), 64) << refused.output();
    EXPECT_THAT(refused.output(), HasSubstr(folder + " is not the folder of a run: "));
  }
}

TEST(MusterTest, AnAddressOfAnotherMachineIsRefusedBeforeAnythingStarts) {
  const std::string folder = MakeFolder() + "/cluster";
  for (const char* option : {"--listen", "--coordinator", "--join-listen"}) {
    Program refused(Muster({"up", "--dir", folder, option, "203.0.113.1:0"}));
    EXPECT_EQ(refused.End(), 64) << refused.output();
    EXPECT_THAT(refused.output(), HasSubstr(absl::StrCat(option, ": '203.0.113.1' is neither")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/store/identity"));
  // Else each member that is placed there would fail.
  Program host(Muster(
      {"agent", "--coordinator", "127.0.0.1:1", "--dir", folder, "--address", "203.0.113.1"}));
  EXPECT_EQ(host.End(), 64) << host.output();
  EXPECT_THAT(host.output(), HasSubstr("--address: '203.0.113.1' is neither"));
}

// Another program in place of ssh, which comes first in PATH.
std::vector<std::string> OverSsh(const std::string& script, std::vector<std::string> more) {
  const std::string folder = MakeFolder();
  std::ofstream(folder + "/ssh") << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(folder + "/ssh", std::filesystem::perms::owner_all);
  std::vector<std::string> words = {"/usr/bin/env", "PATH=" + folder + ":/usr/bin:/bin",
                                    MUSTER_PROGRAM, "run", "job.yaml"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(MusterTest, AnSshThatIsStoppedHoldsNoRunUp) {
  Program program(OverSsh("kill -STOP $$", {"--hosts", "a", "--join-timeout", "1"}));
  EXPECT_EQ(program.End(), 1) << program.output();
}

// Each takes more than one; the soft limit is low on many machines.
TEST(MusterTest, ManyHostsHaveTheirDescriptors) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 256) GTEST_SKIP() << "at most " << limit.rlim_max << " are allowed here";
  Program program(OverSsh("exit 255", {"--hosts", "a[1-40]"}), [&limit] {
    limit.rlim_cur = 64;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
  });
  EXPECT_EQ(program.End(), 1) << program.output();
  EXPECT_THAT(program.output(), HasSubstr("host a1, the first one, cannot be reached"));
}

// As a profile with a prompt: it does not hide that the program runs there.
TEST(MusterTest, WhatAShellPrintsBeforeUsMayLackItsEnd) {
  Program program(OverSsh("printf 'hello'; for last; do :; done; exec sh -c \"$last\"",
                          {"--hosts", "a", "--dir", MakeFolder()}));
  EXPECT_EQ(program.End(), 64) << program.output();
  EXPECT_THAT(program.output(), HasSubstr("hello\n"));
  EXPECT_THAT(program.output(), Not(HasSubstr("muster-run-begun")));
}

TEST(MusterTest, BadWordsAndFilesAreBadConfiguration) {
  Program unknown(Muster({"trian"}));
  EXPECT_TRUE(unknown.WaitFor("--help")) << unknown.output();
  EXPECT_EQ(unknown.Wait(), 64);
  Program missing(Muster({"train", "nowhere.yaml"}));
  EXPECT_TRUE(missing.WaitFor("cannot read nowhere.yaml")) << missing.output();
  EXPECT_EQ(missing.Wait(), 64);
  const std::string spec = MakeFolder() + "/spec.yaml";
  const std::string plan = MakeFolder() + "/plan.yaml";
  std::ofstream(spec) << "task: counting\nreduction: sum\nepochs: 2\nbatch: 8\nworkers: 2\n";
  std::ofstream(plan) << "- {at_step: 1, kill: worker-9}\n";
  Program stranger(Muster({"train", spec, "--dir", MakeFolder(), "--faults", plan}));
  EXPECT_TRUE(stranger.WaitFor("[0].kill: 'worker-9' is not a process of this job"))
      << stranger.output();
  EXPECT_EQ(stranger.Wait(), 64);
  Program node(Muster({"up", "--dir", MakeFolder(), "--node", "a b"}));
  EXPECT_TRUE(node.WaitFor("--node: 'a b' must be")) << node.output();
  EXPECT_EQ(node.Wait(), 64);
  Program devices(Muster({"up", "--dir", MakeFolder(), "--devices", "00"}));
  EXPECT_TRUE(devices.WaitFor("--devices 00: a number has no zero before it")) << devices.output();
  EXPECT_EQ(devices.Wait(), 64);
  std::ofstream(spec) << "task: counting\nepohcs: 2\nbatch: 8\n";
  Program wrong(Muster({"train", spec, "--dir", MakeFolder()}));
  EXPECT_TRUE(wrong.WaitFor("epohcs")) << wrong.output();
  EXPECT_EQ(wrong.Wait(), 64);
}

TEST(MusterTest, TheProcessesLogAsItsOptionsSay) {
  const auto log_of = [](std::vector<std::string> options) {
    const std::string folder = MakeFolder();
    options.insert(options.begin(), {"up", "--dir", folder, "--listen", "127.0.0.1:0"});
    Program program(Muster(options));
    EXPECT_TRUE(program.WaitFor("ready at")) << program.output();
    program.Signal(SIGINT);
    EXPECT_EQ(program.Wait(), 0);
    return TextOf(folder + "/logs/coordinator.log");
  };
  EXPECT_THAT(log_of({}), HasSubstr(" info muster-coordinator listens on "));
  const std::string json = log_of({"--log-json"});
  EXPECT_THAT(json,
              HasSubstr(R"("level":"info","program":"muster-coordinator","text":"listens on )"));
  EXPECT_EQ(LineThatIsNoJson(json), "");
  EXPECT_THAT(log_of({"--log-level", "error"}), Not(HasSubstr("listens on")));
  Program wrong(Muster({"up", "--dir", MakeFolder(), "--log-level", "loud"}));
  EXPECT_TRUE(wrong.WaitFor("use debug, info, warning or error")) << wrong.output();
  EXPECT_EQ(wrong.Wait(), 64);
}

TEST(MusterTest, WhatIsWrongWithTheCoordinatorsCommandLineIsALineOfItsLog) {
  Program refused({MUSTER_COORDINATOR, "--bogus", "--log-json"});
  EXPECT_EQ(refused.End(), 64);
  EXPECT_EQ(LineThatIsNoJson(refused.output()), "");
  EXPECT_THAT(refused.output(), HasSubstr(R"("level":"error","program":"muster-coordinator")"));
}

// It cannot go back in a line, so that progress is lines of their own, as in a file.
TEST(MusterTest, ADumbTerminalIsNotSteered) {
  const std::string spec = MakeFolder() + "/spec.yaml";
  std::ofstream(spec) << "task: counting\nreduction: sum\nsteps: 20\nbatch: 8\n";
  for (const bool is_dumb : {true, false}) {
    const Shown shown = OnATerminal(Muster({"train", spec, "--dir", MakeFolder() + "/job"}),
                                    is_dumb ? "dumb" : "xterm");
    EXPECT_EQ(shown.exit_code, 0) << shown.text;
    EXPECT_THAT(shown.text, HasSubstr("step 20"));
    EXPECT_EQ(shown.text.find('\x1b') == std::string::npos, is_dumb) << shown.text;
  }
}

TEST(MusterTest, TheMembersOfAJobLogAsItsOptionsSay) {
  const std::string folder = MakeFolder() + "/job";
  const std::string spec = MakeFolder() + "/spec.yaml";
  std::ofstream(spec) << "task: counting\nreduction: sum\nsteps: 2\nbatch: 8\nsync: server\n";
  Program train(Muster({"train", spec, "--dir", folder, "--log-json"}));
  EXPECT_EQ(train.End(), 0) << train.output();
  const std::string jobs = folder + "/jobs";
  ASSERT_TRUE(std::filesystem::is_directory(jobs));
  const auto job = std::filesystem::directory_iterator(jobs);
  const std::string logs = job->path().string() + "/logs";
  for (const char* role : {"worker", "server"}) {
    const std::string log = TextOf(absl::StrCat(logs, "/", role, "-0.log"));
    EXPECT_THAT(log, HasSubstr(absl::StrCat(R"("program":"muster-)", role, R"(","member")")));
    EXPECT_EQ(LineThatIsNoJson(log), "");
  }
  Program shown(
      Muster({"logs", job->path().filename().string(), "--dir", folder, "--member", "server-0"}));
  EXPECT_EQ(shown.End(), 0);
  EXPECT_THAT(shown.output(), HasSubstr(R"("program":"muster-server")"));
}

TEST(MusterTest, AnAnswerThatCannotBeWrittenIsNoSuccess) {
  const std::string muster = MUSTER_PROGRAM;
  const auto run = [](const std::string& command) {
    Program program({"/bin/sh", "-c", command});
    const int code = program.End();
    return std::pair(code, program.output());
  };
  for (const std::string& program : {muster, std::string(MUSTER_COORDINATOR)}) {
    for (const char* option : {" --help", " --version"}) {
      const auto full = run(program + option + " >/dev/full");
      EXPECT_EQ(full.first, 1) << program << option;
      EXPECT_THAT(full.second, HasSubstr("cannot write the output: No space left on device"));
      const auto closed = run(program + option + " >&-");
      EXPECT_EQ(closed.first, 1) << program << option;
      EXPECT_THAT(closed.second, HasSubstr("cannot write the output: Bad file descriptor"));
    }
  }
  // A closed stream is no place that a connection or a file takes.
  const std::string folder = MakeFolder();
  Program up(Muster({"up", "--dir", folder, "--listen", "127.0.0.1:0"}));
  ASSERT_TRUE(up.WaitFor("ready at https://")) << up.output();
  const std::string list = muster + " list --dir " + folder;
  EXPECT_EQ(run(list).first, 0);
  for (const char* end : {" >/dev/full", " >&-"}) {
    const auto refused = run(list + end);
    EXPECT_EQ(refused.first, 1) << end;
    EXPECT_THAT(refused.second, HasSubstr("muster: cannot write the output")) << end;
  }
}

TEST(MusterTest, TellsItsVersion) {
  for (const char* program : {MUSTER_PROGRAM, MUSTER_COORDINATOR}) {
    Program asked({program, "--version"});
    EXPECT_EQ(asked.End(), 0);
    EXPECT_EQ(asked.output(), std::string(kVersion) + "\n");
  }
}

}  // namespace
}  // namespace muster
