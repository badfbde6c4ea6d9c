// Growing, jittered waits between attempts. Deterministic from its seed; no clock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/hash.h"
#include "lib/base/time.h"

namespace muster {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(20);
  static constexpr Duration kLongest = std::chrono::milliseconds(500);

  explicit Backoff(uint64_t seed = 0) : random_(seed) {}
  void Reset() { next_ = kFirst; }
  // Between a half and the whole of 20 ms, doubled at each call, up to 500 ms.
  Duration Next() {
    const Duration longest = next_;
    next_ = std::min(2 * next_, kLongest);
    random_ = Mix64(random_);
    return longest / 2 + Duration(static_cast<int64_t>(
                             random_ % static_cast<uint64_t>((longest / 2).count() + 1)));
  }

 private:
  Duration next_ = kFirst;
  uint64_t random_;
};

}  // namespace muster
