// Ctrl-C and its kin as events of the loop. Block them before the first thread starts, so that no
// thread takes one.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "agent/runtime/event_loop.h"
#include "lib/base/time.h"

namespace muster::agent {

// SIGINT, SIGTERM and SIGHUP wait for a SignalWatch from now on, as do SIGUSR1 and SIGUSR2, with
// which launchers say that the end of an allocation is near; SIGPIPE is ignored.
void BlockSignals();

// A person's Ctrl-C may reach a process twice: once through its group and once through its leader.
// What follows within a second of the last one that counted is the same wish.
class Wishes {
 public:
  bool Counts(Time now) {
    if (last_ && now - *last_ < std::chrono::seconds(1)) return false;
    last_ = now;
    return true;
  }

 private:
  std::optional<Time> last_;
};

class SignalWatch {
 public:
  // `on_signal` is called for those that count.
  SignalWatch(EventLoop& loop, std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  EventLoop& loop_;
  const int fd_;
  Wishes wishes_;
};

}  // namespace muster::agent
