#include "agent/runtime/process.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "agent/runtime/event_loop.h"
#include "agent/runtime/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/agent/runtime/stand_in.h"

namespace muster::agent {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool WaitReadable(int fd) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 40'000) == 1;
}

// From here on this system call fails in this process and in those that it starts.
void Deny(int call, int error) {
  std::array<sock_filter, 4> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = rules.size(), .filter = rules.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(3);
}

class ProcessTest : public ::testing::Test {
 protected:
  absl::StatusOr<ChildProcess> Start(const std::string& what) {
    return ChildProcess::Start({.arguments = StandIn(what), .log_file = log_});
  }
  Exit ExitOf(ChildProcess& process) {
    EXPECT_TRUE(WaitReadable(process.exit_fd()));
    return process.TryReap().value_or(Exit{.code = -1});
  }
  // The first report of the process.
  Report FirstReport(ChildProcess& process) {
    LineReader reader;
    std::vector<Report> reports;
    bool open = true;
    while (open && reports.empty() && WaitReadable(process.report_fd()))
      open = reader.ReadFrom(process.report_fd(), [&](absl::string_view line) {
        reports.push_back(ParseReport(line).value());
      });
    return reports.empty() ? Report{} : reports[0];
  }
  std::string LogText() const {
    std::ifstream in(log_);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::string folder_ = MakeTestFolder();
  std::string log_ = folder_ + "/process.log";
};

TEST_F(ProcessTest, TellsHowItEnded) {
  auto exits = Start("exit 64");
  ASSERT_TRUE(exits.ok()) << exits.status();
  EXPECT_EQ(ExitOf(*exits).code, 64);
  EXPECT_FALSE(exits->TryReap().has_value());  // once
  auto aborts = Start("abort");
  ASSERT_TRUE(aborts.ok()) << aborts.status();
  EXPECT_EQ(ExitOf(*aborts).signal, SIGABRT);
}

// A shell or a supervisor may have started us so.
TEST_F(ProcessTest, TellsHowItEndedAlsoWhereTheEndOfChildrenIsIgnored) {
  signal(SIGCHLD, SIG_IGN);
  auto exits = Start("exit 64");
  ASSERT_TRUE(exits.ok()) << exits.status();
  EXPECT_EQ(ExitOf(*exits).code, 64);
}

TEST_F(ProcessTest, KeepsItsLogAndTellsTheLastLinesOfThisRun) {
  for (const char* what : {"say first words", "say second words"}) {
    auto process = Start(what);
    ASSERT_TRUE(process.ok()) << process.status();
    EXPECT_EQ(ExitOf(*process).last_lines, std::string(what).substr(4));
  }
  EXPECT_THAT(LogText(), HasSubstr("first words\n--- "));
}

// Collectors read every line of the file, ours too.
TEST_F(ProcessTest, ItsLogBeginsAsItGoesOn) {
  for (const bool json : {false, true}) {
    std::filesystem::remove(log_);
    const std::string program = "/bin/sh";
    std::vector<std::string> arguments = {program, "-c", "exit 0"};
    if (json) arguments.push_back("--log-json");
    auto process = ChildProcess::Start({.arguments = arguments, .log_file = log_});
    ASSERT_TRUE(process.ok()) << process.status();
    ExitOf(*process);
    std::ifstream in(log_);
    std::string line;
    ASSERT_TRUE(std::getline(in, line));
    if (!json) {
      EXPECT_THAT(line, StartsWith("--- 20"));
      EXPECT_THAT(line, EndsWith("Z starting " + program));
      continue;
    }
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_THAT(line, StartsWith(R"({"time":"20)"));
    EXPECT_EQ(object.value("time", "").size(), std::string("2026-11-21T08:32:00.123Z").size());
    EXPECT_EQ(object.value("level", ""), "info");
    EXPECT_EQ(object.value("program", ""), "sh");
    EXPECT_EQ(object.value("text", ""), "starting " + program);
  }
}

TEST_F(ProcessTest, LastLinesAreWholeText) {
  auto process = Start("say caf\xC3\xA9 \xC3( \xED\xA0\x80 \xFF \xE2\x82");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ExitOf(*process).last_lines, "caf\xC3\xA9 ?( ??? ? ??");
}

// Half a line of what went well would be taken for a cause.
TEST_F(ProcessTest, LastLinesAreWholeLines) {
  const auto last_lines_of = [&](const std::string& script) {
    auto process = ChildProcess::Start({.arguments = {"/bin/sh", "-c", script}, .log_file = log_});
    return process.ok() ? ExitOf(*process).last_lines : process.status().ToString();
  };
  const std::string long_line = "head -c 5000 /dev/zero | tr '\\0' a";
  EXPECT_EQ(last_lines_of(long_line + "; echo; echo b; echo c"), "b\nc");
  EXPECT_THAT(last_lines_of(long_line), StartsWith("aaa")) << "there is no other";
}

TEST_F(ProcessTest, InheritsNothingItShouldNot) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t term;
  sigset_t before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);
  const int leak = dup(0);  // a library's descriptor without close-on-exec
  auto process = Start("environment");
  close(leak);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(FirstReport(*process).text, "descriptors=4 own_group=1 term_blocked=0 pipe_default=1");
  ExitOf(*process);
}

TEST_F(ProcessTest, RunsOnItsCoresAndIgnoresWhatALauncherSendsToAll) {
  const auto said = [&](const std::vector<int>& cores) {
    const std::string script =
        "kill -HUP $$; kill -USR1 $$; kill -USR2 $$; grep Cpus_allowed_list /proc/self/status";
    auto process = ChildProcess::Start(
        {.arguments = {"/bin/sh", "-c", script}, .log_file = log_, .cores = cores});
    return process.ok() ? ExitOf(*process).last_lines : process.status().ToString();
  };
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<size_t>(first), &ours)) ++first;
  EXPECT_THAT(said({first}), HasSubstr(absl::StrCat("Cpus_allowed_list:\t", first)));
  EXPECT_THAT(said({CPU_SETSIZE - 1}), HasSubstr("Cpus_allowed_list")) << "it runs where we do";
}

// An agent that stands still (Ctrl-Z, a terminal that does not take its output) costs reports only.
TEST_F(ProcessTest, ReportsThatNobodyReadsDoNotHoldItUp) {
  auto process = Start("flood 100000");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ExitOf(*process).code, 0);
}

TEST_F(ProcessTest, SaysWhyItCannotStart) {
  auto no_program =
      ChildProcess::Start({.arguments = {"/nowhere/muster-worker"}, .log_file = log_});
  EXPECT_EQ(no_program.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_program.status().message()), HasSubstr("/nowhere/muster-worker"));
  auto no_log =
      ChildProcess::Start({.arguments = StandIn("exit 0"), .log_file = folder_ + "/absent/x.log"});
  EXPECT_EQ(no_log.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(no_log.status().message()), HasSubstr("absent/x.log"));
  const std::string pipe = folder_ + "/pipe.log";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  auto no_file = ChildProcess::Start({.arguments = StandIn("exit 0"), .log_file = pipe});
  EXPECT_EQ(no_file.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(no_file.status().message()), HasSubstr(pipe + "' is a pipe"));
}

TEST_F(ProcessTest, AHostWithoutDescriptorsIsToldFromAProgramThatCannotRun) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  auto no_room = ChildProcess::Start({.arguments = StandIn("exit 0"), .log_file = log_});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(no_room.status().code(), absl::StatusCode::kResourceExhausted) << no_room.status();
  const std::string garbage = folder_ + "/garbage";
  std::ofstream(garbage) << "not a program";
  std::filesystem::permissions(garbage, std::filesystem::perms::all);
  auto no_program = ChildProcess::Start({.arguments = {garbage}, .log_file = log_});
  EXPECT_EQ(no_program.status().code(), absl::StatusCode::kFailedPrecondition)
      << no_program.status();
}

// Each says nothing about the program, so that it is tried again.
TEST_F(ProcessTest, WhatTheHostLacksIsToldByItsErrno) {
  const auto told_as = [&](const std::vector<int>& calls, int error) {
    for (const int call : calls) Deny(call, error);
    _exit(static_cast<int>(Start("exit 0").status().code()));
  };
  const auto as_code = [](absl::StatusCode code) {
    return ::testing::ExitedWithCode(static_cast<int>(code));
  };
  const std::vector<int> fork_calls = {SYS_clone, SYS_clone3};
  EXPECT_EXIT(told_as(fork_calls, EAGAIN), as_code(absl::StatusCode::kUnavailable), "");
  EXPECT_EXIT(told_as(fork_calls, ENOMEM), as_code(absl::StatusCode::kResourceExhausted), "");
  // The log's first line.
  EXPECT_EXIT(told_as({SYS_write}, ENOSPC), as_code(absl::StatusCode::kResourceExhausted), "");
  EXPECT_EXIT(told_as({SYS_pipe2}, ENFILE), as_code(absl::StatusCode::kResourceExhausted), "");
}

// A number may belong to another process once ours was reaped, a descriptor may not. Here no signal
// by number arrives.
TEST_F(ProcessTest, SignalsGoByTheDescriptorOfTheProcess) {
  const auto killed = [&] {
    for (const int call : {SYS_kill, SYS_tkill, SYS_tgkill}) Deny(call, EPERM);
    auto process = Start("ignore SIGTERM");
    if (!process.ok()) _exit(2);
    process->Signal(SIGKILL);
    _exit(ExitOf(*process).signal == SIGKILL ? 0 : 1);
  };
  EXPECT_EXIT(killed(), ::testing::ExitedWithCode(0), "");
}

// Once the child ran on unwatched, and whoever let go of it waited for it for ever.
TEST_F(ProcessTest, AChildThatCannotBeWatchedIsGoneBeforeStartReturns) {
  const auto told_as = [&](int error) {
    Deny(SYS_pidfd_open, error);  // as on an old kernel, or in a strict container
    alarm(40);                    // ends this process where nothing else does
    const auto started = Start("ignore SIGTERM");
    const bool is_gone = waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
    _exit(is_gone ? static_cast<int>(started.status().code()) : 2);
  };
  const auto as_code = [](absl::StatusCode code) {
    return ::testing::ExitedWithCode(static_cast<int>(code));
  };
  EXPECT_EXIT(told_as(ENOSYS), as_code(absl::StatusCode::kUnavailable), "");
  EXPECT_EXIT(told_as(EPERM), as_code(absl::StatusCode::kUnavailable), "");
  EXPECT_EXIT(told_as(EMFILE), as_code(absl::StatusCode::kResourceExhausted), "");
}

TEST_F(ProcessTest, EndsWithItsOwner) {
  int watch = -1;
  {
    auto process = Start("ignore SIGTERM");
    ASSERT_TRUE(process.ok()) << process.status();
    EXPECT_EQ(FirstReport(*process).event, "step");
    watch = static_cast<int>(syscall(SYS_pidfd_open, process->pid(), 0));
    ASSERT_GE(watch, 0);
  }
  pollfd poll_once{.fd = watch, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&poll_once, 1, 0), 1);  // already gone
  close(watch);
}

// The promise of "leaves nothing behind, also when it is itself killed".
TEST_F(ProcessTest, ChildrenVanishWithAKilledAgent) {
  auto agent = Start("family 3 " + folder_);
  ASSERT_TRUE(agent.ok()) << agent.status();
  LineReader reader;
  std::vector<int> watches;
  bool ready = false;
  while (!ready && WaitReadable(agent->report_fd())) {
    const bool open = reader.ReadFrom(agent->report_fd(), [&](absl::string_view line) {
      const Report report = ParseReport(line).value();
      int pid = 0;
      if (report.event == "pid" && absl::SimpleAtoi(report.text, &pid))
        watches.push_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      ready = ready || report.event == "ready";
    });
    ASSERT_TRUE(open);
  }
  ASSERT_EQ(watches.size(), 3u);
  for (const int watch : watches) {
    pollfd poll_once{.fd = watch, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&poll_once, 1, 0), 0) << "it should still run";
  }
  agent->Signal(SIGKILL);
  EXPECT_EQ(ExitOf(*agent).signal, SIGKILL);
  for (const int watch : watches) {
    EXPECT_TRUE(WaitReadable(watch)) << "a child outlived its agent";
    close(watch);
  }
}

}  // namespace
}  // namespace muster::agent
