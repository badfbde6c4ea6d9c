#include "agent/runtime/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/check.h"

namespace muster::agent {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, s);
  return set;
}

int MakeDescriptor() {
  const sigset_t set = Watched();
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

void BlockSignals() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

SignalWatch::SignalWatch(EventLoop& loop, std::function<void(int signal)> on_signal)
    : loop_(loop), fd_(MakeDescriptor()) {
  MUSTER_CHECK(fd_ >= 0);
  loop_.Watch(fd_, [this, on_signal = std::move(on_signal)] {
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      if (wishes_.Counts(std::chrono::steady_clock::now()))
        on_signal(static_cast<int>(info.ssi_signo));
  });
}

SignalWatch::~SignalWatch() {
  loop_.Unwatch(fd_);
  close(fd_);
}

}  // namespace muster::agent
