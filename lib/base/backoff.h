// Growing, jittered waits between attempts: who was turned away together does not come back
// together. Deterministic from its seed; no clock. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/hash.h"
#include "lib/base/time.h"

namespace muster {

class Backoff {
 public:
  // Those of sessions between members.
  static constexpr Duration kFirst = std::chrono::milliseconds(20);
  static constexpr Duration kLongest = std::chrono::milliseconds(500);

  explicit Backoff(uint64_t seed = 0, Duration first = kFirst, Duration longest = kLongest)
      : first_(first), longest_(longest), next_(first), random_(seed) {}
  void Reset() { next_ = first_; }
  void BeLongest() { next_ = longest_; }
  // Between a half and the whole of the first one, doubled at each call, up to the longest.
  Duration Next() {
    const Duration most = next_;
    next_ = std::min(2 * next_, longest_);
    random_ = Mix64(random_);
    return most / 2 +
           Duration(static_cast<int64_t>(random_ % static_cast<uint64_t>((most / 2).count() + 1)));
  }

 private:
  Duration first_;
  Duration longest_;
  Duration next_;
  uint64_t random_;
};

}  // namespace muster
