// A program under test as a child: what it says, what it started, how it ends.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace muster {

inline constexpr int kWaitMilliseconds = 40'000;

// Those that its main thread has started.
inline std::vector<pid_t> ChildrenOf(pid_t process) {
  const std::string pid = std::to_string(process);
  std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; in >> child;) children.push_back(child);
  return children;
}

// Its standard output and error come through one pipe. `before` runs in the child before the
// program does; false ends it with exit code 126.
class Program {
 public:
  explicit Program(std::vector<std::string> command, const std::function<bool()>& before = {}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      if (before && !before()) _exit(126);
      dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);  // nobody answers a question
      dup2(ends[1], 1);
      dup2(ends[1], 2);
      execv(words[0], words.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }

  // Reads until the output holds `text` at or after `from`; false at its end, or when it does not
  // come.
  bool WaitFor(const std::string& text, size_t from = 0) {
    for (size_t at = from; output_.find(text, at) == std::string::npos;) {
      at = std::max(from, output_.size() < text.size() ? 0 : output_.size() - text.size());
      pollfd wait{.fd = out_, .events = POLLIN, .revents = 0};
      char buffer[4096];
      const ssize_t n =
          poll(&wait, 1, kWaitMilliseconds) == 1 ? read(out_, buffer, sizeof buffer) : 0;
      ended_ = ended_ || (n <= 0 && wait.revents != 0);
      if (n <= 0) return false;
      output_.append(buffer, static_cast<size_t>(n));
    }
    return true;
  }
  std::vector<pid_t> Children() const { return ChildrenOf(pid_); }
  pid_t pid() const { return pid_; }
  void Signal(int signal) const { kill(pid_, signal); }
  // Reads all there is to come, as long as it runs. The exit code, or minus the signal.
  int End() {
    while (!WaitFor(std::string(1, '\0')) && !ended_ && Runs()) {
    }
    return Wait();
  }
  // Exit code, or minus the signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& output() const { return output_; }

 private:
  bool Runs() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  bool ended_ = false;  // it says no more
  std::string output_;
};

inline std::string MakeFolder() {
  std::string folder = ::testing::TempDir() + "muster-program-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

inline std::vector<int> Watch(const std::vector<pid_t>& pids) {
  std::vector<int> watches;
  for (const pid_t pid : pids) watches.push_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return watches;
}

inline void ExpectGone(const std::vector<int>& watches) {
  for (const int watch : watches) {
    pollfd wait{.fd = watch, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&wait, 1, kWaitMilliseconds), 1) << "a process was left behind";
    close(watch);
  }
}

// From now on whatever a child of this process leaves behind becomes a child of this process.
inline void AdoptOrphans() { ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }

// Once everything that was started has been waited for.
inline void ExpectNoChildren() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process was left behind";
}

}  // namespace muster
