// Whether our own process stood still, as it does with its machine, or when somebody stops it. What
// others, or its own threads, seem to have missed meanwhile is not theirs.
#pragma once

#include <algorithm>

#include "lib/base/time.h"

namespace muster {

class OwnGaps {
 public:
  // Whoever wakes more often than `longest` tells each time.
  OwnGaps(Duration longest, Time now) : longest_(longest), woke_(now) {}

  // True: there was a gap since the last time.
  bool Wake(Time now) {
    const bool stood_still = now - woke_ > longest_;
    if (stood_still) ended_ = now;
    none_ &= !stood_still;
    woke_ = now;
    return stood_still;
  }
  // Of a time until the last waking, the part that is not older than our last gap.
  Duration Since(Duration time) const { return none_ ? time : std::min(time, woke_ - ended_); }

 private:
  const Duration longest_;
  Time woke_;
  bool none_ = true;  // so far
  Time ended_;        // the last gap
};

}  // namespace muster
