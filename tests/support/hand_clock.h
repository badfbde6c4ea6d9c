#pragma once

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace muster {

// Moves only when told. Thread-safe.
class HandClock final : public Clock {
 public:
  Time Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  void Advance(Duration by) {
    MutexLock lock(mutex_);
    now_ += by;
  }

 private:
  mutable Mutex mutex_;
  Time now_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace muster
