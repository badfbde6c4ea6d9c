#include "agent/runtime/first_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

namespace muster::agent {
namespace {

constexpr int kNotAllowed = 99;

// A program that calls ReapForAChild and then does `work`, in a process in which `before` was done
// first. What it says comes back, with how it ended.
class Container {
 public:
  explicit Container(const std::function<bool()>& before, const std::function<int(int out)>& work) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      if (!before()) _exit(kNotAllowed);
      if (const std::optional<int> code = ReapForAChild()) _exit(*code);
      _exit(work(ends[1]));
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Container() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  pid_t pid() const { return pid_; }
  // One byte; 0: the end, or none within the time.
  char Read() const {
    pollfd wait{.fd = out_, .events = POLLIN, .revents = 0};
    char byte = 0;
    return poll(&wait, 1, 40'000) == 1 && read(out_, &byte, 1) == 1 ? byte : '\0';
  }
  int End() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

bool BecomeSubreaper() { return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

void Say(int out, char byte) {
  if (write(out, &byte, 1) != 1) _exit(3);
}

// Has a grandchild that ends once it is an orphan, and waits until nothing is left of it.
int MakeAnOrphan(int out) {
  int tells[2], lives[2];
  if (pipe(tells) != 0 || pipe(lives) != 0) return 3;
  const pid_t child = fork();
  if (child == 0) {
    const pid_t parent = getpid();
    if (fork() == 0) {
      const pid_t self = getpid();
      while (getppid() == parent) sched_yield();
      if (write(tells[1], &self, sizeof self) != sizeof self) _exit(3);
      _exit(0);
    }
    _exit(5);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) return 4;
  pid_t orphan = 0;
  if (read(tells[0], &orphan, sizeof orphan) != sizeof orphan) return 3;
  // A process that nobody has waited for is there for kill(2).
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (kill(orphan, 0) == 0 && std::chrono::steady_clock::now() < until) sched_yield();
  Say(out, kill(orphan, 0) == 0 ? 'z' : 'r');
  return 7;
}

TEST(FirstProcess, ReapsOrphansAndEndsAsItsChildDoes) {
  Container container(BecomeSubreaper, MakeAnOrphan);
  EXPECT_EQ(container.Read(), 'r') << "the orphan is still there";
  EXPECT_EQ(container.End(), 7);
}

TEST(FirstProcess, NobodyReapsForThoseToWhomNoOrphansCome) {
  Container container([] { return true; },
                      [self = getpid()](int out) {
                        Say(out, getppid() == self ? 'o' : 'c');
                        return 0;
                      });
  EXPECT_EQ(container.Read(), 'o') << "it has no child in its place";
  EXPECT_EQ(container.End(), 0);
}

// As process 1 of a container.
TEST(FirstProcess, IsProcess1OfAContainer) {
  Container container(
      [] {
        if (unshare(CLONE_NEWPID) != 0) return false;
        const pid_t first = fork();
        if (first == 0) return getpid() == 1;
        int status = 0;
        waitpid(first, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
      },
      [](int out) {
        Say(out, getpid() == 2 && getppid() == 1 ? '2' : '?');
        return MakeAnOrphan(out);
      });
  const char first = container.Read();
  if (first == '\0' && container.End() == kNotAllowed)
    GTEST_SKIP() << "PID namespaces are not allowed here";
  EXPECT_EQ(first, '2');
  EXPECT_EQ(container.Read(), 'r');
  EXPECT_EQ(container.End(), 7);
}

int WaitForSignals(int out) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGUSR1}) sigaddset(&set, s);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Say(out, 'w');
  for (;;) {
    int signal = 0;
    sigwait(&set, &signal);
    Say(out, signal == SIGUSR1 ? 'u' : 't');
    if (signal == SIGTERM) return 75;
  }
}

TEST(FirstProcess, PassesSignalsOn) {
  Container container(BecomeSubreaper, WaitForSignals);
  ASSERT_EQ(container.Read(), 'w');
  kill(container.pid(), SIGUSR1);
  EXPECT_EQ(container.Read(), 'u');
  kill(container.pid(), SIGTERM);
  EXPECT_EQ(container.Read(), 't');
  EXPECT_EQ(container.End(), 75);
}

TEST(FirstProcess, AChildThatIsKilledIsToldAsShellsDo) {
  Container container(BecomeSubreaper, [](int) {
    kill(getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(container.End(), 128 + SIGKILL);
}

TEST(FirstProcess, TheChildDiesWithIt) {
  Container container(BecomeSubreaper, WaitForSignals);
  ASSERT_EQ(container.Read(), 'w');
  kill(container.pid(), SIGKILL);
  EXPECT_EQ(container.End(), -SIGKILL);
  EXPECT_EQ(container.Read(), '\0') << "its end of the pipe closes";
}

}  // namespace
}  // namespace muster::agent
