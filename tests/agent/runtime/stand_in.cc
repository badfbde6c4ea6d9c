#include "tests/agent/runtime/stand_in.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/runtime/agent.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

void Say(int fd, const std::string& text) {
  const std::string line = text + "\n";
  if (write(fd, line.data(), line.size()) < 0) _exit(99);
}

[[noreturn]] void Hang() {
  while (true) pause();
}

int OpenDescriptors() {
  int n = 0;
  for (int fd = 0; fd < 1024; ++fd) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

// An agent of hanging processes, the last one paused, that waits to be killed.
[[noreturn]] void Family(int children, const std::string& folder, int report_fd) {
  auto loop = EventLoop::Make().value();
  int ready = 0;
  pid_t last = 0;
  Agent agent(
      *loop,
      {.log_file = [&](const Spawn& spawn) { return folder + "/" + spawn.key.name + ".log"; },
       .command = [](const Spawn&) { return StandIn("hang"); },
       .lanes = {},
       .supervisor = {},
       .faults = {}},
      {.on_start =
           [&](const NoteStart& note) {
             last = note.pid;
             Say(report_fd, absl::StrCat(R"({"event":"pid","text":")", note.pid, "\"}"));
           },
       .on_report =
           [&](const ProcessKey&, const Report&) {
             if (++ready < children) return;
             kill(last, SIGSTOP);
             Say(report_fd, R"({"event":"ready"})");
           }});
  JobProcesses job{.job = "j", .start = StartNumber(1), .processes = {}};
  for (int i = 0; i < children; ++i)
    job.processes.push_back({absl::StrCat("worker-", i), Role::kWorker});
  agent.Do(WantMembers{Wanted{{job}}});
  loop->Run();
  _exit(98);
}

[[noreturn]] void RunStandIn(const std::string& what, int report_fd) {
  const std::vector<std::string> words = absl::StrSplit(what, ' ');
  const std::string& kind = words[0];
  if (kind == "exit") _exit(std::atoi(words[1].c_str()));
  if (kind == "ignore") signal(SIGTERM, SIG_IGN);
  if (kind == "hang" || kind == "ignore") {
    Say(report_fd, R"({"event":"step","step":1,"loss":0.5,"samples":8,"seconds":0.1})");
    Hang();
  }
  if (kind == "abort") {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::abort();
  }
  if (kind == "say") {
    Say(2, what.substr(4));
    _exit(1);
  }
  if (kind == "write") {
    Say(report_fd, absl::StrCat(R"({"event":"sample","text":")", what.substr(6), "\"}"));
    _exit(0);
  }
  if (kind == "member") {
    Say(report_fd, R"({"event":"metrics","metrics":"127.0.0.1:9"})");
    if (words.size() > 2) Say(report_fd, absl::StrCat(R"({"event":"ends","code":)", words[2], "}"));
    _exit(std::atoi(words[1].c_str()));
  }
  if (kind == "steps") {
    for (int i = 1; i <= std::atoi(words[1].c_str()); ++i)
      Say(report_fd, absl::StrCat(R"({"event":"step","step":)", i, "}"));
    _exit(0);
  }
  if (kind == "flood") {
    const std::string line = R"({"event":"step","step":1})"
                             "\n";
    for (int i = 0; i < std::atoi(words[1].c_str()); ++i)
      if (write(report_fd, line.data(), line.size()) < 0 && errno != EAGAIN) _exit(99);
    _exit(0);
  }
  if (kind == "environment") {
    sigset_t mask;
    sigprocmask(SIG_SETMASK, nullptr, &mask);
    struct sigaction pipe_action {};
    sigaction(SIGPIPE, nullptr, &pipe_action);
    Say(report_fd, absl::StrCat(R"({"event":"environment","text":")", "descriptors=",
                                OpenDescriptors(), " own_group=", getpgrp() == getpid(),
                                " term_blocked=", sigismember(&mask, SIGTERM),
                                " pipe_default=", pipe_action.sa_handler == SIG_DFL, "\"}"));
    _exit(0);
  }
  if (kind == "family") Family(std::atoi(words[1].c_str()), words[2], report_fd);
  _exit(97);
}

}  // namespace

std::vector<std::string> StandIn(const std::string& what) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "--stand-in", what};
}

void RunUntilQuit(EventLoop& loop) {
  bool late = false;
  const auto timer = loop.At(std::chrono::steady_clock::now() + std::chrono::seconds(40), [&] {
    late = true;
    loop.Quit();
  });
  loop.Run();
  loop.Cancel(timer);
  ASSERT_FALSE(late) << "what the test waits for did not happen";
}

std::string MakeTestFolder() {
  std::string folder = ::testing::TempDir() + "/muster-agent-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

}  // namespace muster::agent

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--stand-in")
    muster::agent::RunStandIn(argv[2], std::atoi(argv[4]));
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
