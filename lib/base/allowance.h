// How often something is told that others can cause at will, so that they fill neither logs nor
// events: a few times a minute. What is left out is counted. A plain value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/time.h"

namespace muster {

inline constexpr int kToldInAMinute = 4;

class Allowance {
 public:
  // How many were left out since the last that was told; nothing: this one is left out, too.
  std::optional<int64_t> Take(Time now) {
    if (!began_ || now - *began_ >= std::chrono::minutes(1)) {
      began_ = now;
      told_ = 0;
    }
    if (told_ < kToldInAMinute) {
      ++told_;
      return std::exchange(left_out_, 0);
    }
    ++left_out_;
    return std::nullopt;
  }

  // Some were left out, and the next may be told.
  bool Owes(Time now) const { return left_out_ > 0 && now - *began_ >= std::chrono::minutes(1); }

 private:
  std::optional<Time> began_;  // the minute that is counted
  int told_ = 0;               // in it
  int64_t left_out_ = 0;
};

}  // namespace muster
