// Ctrl-C and its kin as events of the loop. Block them before the first thread starts, so that no
// thread takes one.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "agent/runtime/event_loop.h"

namespace muster::agent {

// SIGINT, SIGTERM and SIGHUP wait for a SignalWatch from now on; SIGPIPE is ignored.
void BlockSignals();

class SignalWatch {
 public:
  SignalWatch(EventLoop& loop, std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  EventLoop& loop_;
  const int fd_;
};

}  // namespace muster::agent
