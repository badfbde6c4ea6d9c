// Monotonic time comes in by the door: whoever needs it takes a Clock. Wall-clock time is only for
// people to read.
#pragma once

#include <mutex>

#include "lib/base/time.h"

namespace muster {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
};

// Moves only when told. Thread-safe.
class HandClock final : public Clock {
 public:
  Time Now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(Duration by) {
    std::lock_guard lock(mutex_);
    now_ += by;
  }

 private:
  mutable std::mutex mutex_;
  Time now_{};
};

}  // namespace muster
