// A thread for what takes long on disk, so that the driver never waits for it. Calls run in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <stop_token>
#include <thread>

#include "lib/base/mailbox.h"

namespace muster::coordinator {

class Background {
 public:
  // `stop` is asked for by Stop: a call that takes long looks at it now and then, and ends early.
  using Call = std::function<void(std::stop_token stop)>;

  explicit Background(size_t most_waiting = std::numeric_limits<size_t>::max());
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // The call that runs is waited for; those that have not begun are dropped.
  void Stop();

  // From any thread. False: it was stopped or its queue is full; the call is dropped then.
  bool Run(Call call);
  size_t queued() const { return calls_.size(); }
  bool idle() const { return unfinished_ == 0; }

 private:
  const size_t most_waiting_;
  Mailbox<Call> calls_;
  std::atomic<size_t> unfinished_{0};  // calls
  std::stop_source stopping_;
  std::thread thread_;
};

}  // namespace muster::coordinator
