#pragma once

#include <cstdint>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace muster {

// Moves only when told. Thread-safe.
class HandClock final : public Clock {
 public:
  Time Now() const override {
    MutexLock lock(mutex_);
    ++reads_;
    return now_;
  }
  void Advance(Duration by) {
    MutexLock lock(mutex_);
    now_ += by;
  }
  // How often it was asked: shows that somebody who looks now and then has looked since.
  int64_t reads() const {
    MutexLock lock(mutex_);
    return reads_;
  }

 private:
  mutable Mutex mutex_;
  Time now_ ABSL_GUARDED_BY(mutex_){};
  mutable int64_t reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster
