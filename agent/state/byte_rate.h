// How many bytes may be sent now, so that over time they are no more than so many a second. A plain
// value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/time.h"

namespace muster::agent {

class ByteRate {
 public:
  // `burst`: what may be sent at once by who has sent nothing for a while.
  ByteRate(int64_t per_second, int64_t burst)
      : per_second_(per_second), burst_(burst), left_(burst) {}

  int64_t Left(Time now) {
    const Time before = std::exchange(last_, now).value_or(now);
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now - before).count();
    if (millis == 0) last_ = before;                          // a part of one is not lost
    const int64_t longest = burst_ * 1000 / per_second_ + 1;  // no more is needed to fill it
    left_ = std::min(burst_, left_ + std::clamp<int64_t>(millis, 0, longest) * per_second_ / 1000);
    return left_;
  }
  void Sent(int64_t bytes) { left_ -= bytes; }

 private:
  const int64_t per_second_;
  const int64_t burst_;
  int64_t left_;
  std::optional<Time> last_;
};

}  // namespace muster::agent
