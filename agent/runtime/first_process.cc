#include "agent/runtime/first_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::agent {
namespace {

bool GetsOrphans() {
  int is_subreaper = 0;
  return getpid() == 1 ||
         (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper, 0, 0, 0) == 0 && is_subreaper == 1);
}

// A key of the terminal, such as Ctrl-C, has reached the child, too: to it two would be another
// wish. Only the leader of a session is told that its terminal has gone.
bool IsForChild(int signal, const siginfo_t& info) {
  return info.si_code != SI_KERNEL || signal == SIGHUP;
}

// Of all that have ended; the exit code once `child` is among them.
std::optional<int> ReapAll(pid_t child) {
  constexpr int kSignalled = 128;  // as shells and containers tell it
  std::optional<int> code;
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
    if (ended == child)
      code = WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  return code;
}

}  // namespace

std::optional<int> ReapForAChild() {
  if (!GetsOrphans()) return std::nullopt;
  signal(SIGCHLD, SIG_DFL);  // ignored, as it may be at our start, it would never come
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child <= 0) {
    // Without a child this process goes on itself, and orphans stay.
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (child == 0 && getppid() != self) _exit(128 + SIGKILL);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return std::nullopt;
  }
  for (;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&all, &info);
    if (signal > 0 && signal != SIGCHLD && IsForChild(signal, info)) kill(child, signal);
    if (const std::optional<int> code = ReapAll(child)) return code;
  }
}

}  // namespace muster::agent
