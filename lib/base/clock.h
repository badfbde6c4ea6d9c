// Whoever needs monotonic time is given a Clock, so that tests can give their own. Wall-clock time
// is only for people to read.
#pragma once

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

}  // namespace muster
