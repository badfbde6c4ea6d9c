#pragma once

#include <mutex>

#include "lib/base/clock.h"

namespace muster {

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
  Time now_{};  // guarded by mutex_
};

}  // namespace muster
