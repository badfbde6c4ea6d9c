// The time in which our own process was awake. While it stands still, as it does with its machine,
// or when somebody stops it, none of its threads asks for the time. What others seem to have missed
// meanwhile is not theirs.
#pragma once

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace muster {

class AwakeClock final : public Clock {
 public:
  // Of a time in which nobody asks, no more than `longest` counts, so somebody asks more often,
  // whatever the other threads do. `clock` outlives this one.
  AwakeClock(const Clock& clock, Duration longest)
      : clock_(clock), longest_(longest), asked_(clock.Now()), awake_(asked_) {}

  Time Now() const override {
    const MutexLock lock(mutex_);
    const Time now = clock_.Now();
    awake_ += std::min(now - asked_, longest_);
    asked_ = now;
    return awake_;
  }

 private:
  const Clock& clock_;
  const Duration longest_;
  mutable Mutex mutex_;
  mutable Time asked_ ABSL_GUARDED_BY(mutex_);  // by `clock_`
  mutable Time awake_ ABSL_GUARDED_BY(mutex_);  // then
};

}  // namespace muster
