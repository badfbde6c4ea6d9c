// Moments and spans of monotonic time as plain values. The state rooms are given the time with each
// input and never read a clock.
#pragma once

#include <chrono>

namespace muster {

using Duration = std::chrono::nanoseconds;
using Time =
    std::chrono::time_point<std::chrono::steady_clock, Duration>;  // monotonic, per process

inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration DurationOf(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace muster
