// A thread for what takes long on disk, so that the driver never waits for it. Calls run in order.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "lib/base/mailbox.h"

namespace muster::coordinator {

class Background {
 public:
  Background();
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // The call that runs is waited for; those that have not begun are dropped.
  void Stop();

  void Run(std::function<void()> call);  // any thread; dropped once stopped
  size_t queued() const { return calls_.size(); }

 private:
  Mailbox<std::function<void()>> calls_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace muster::coordinator
