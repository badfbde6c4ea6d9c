// How fast a job's records have come lately: what the time that is left is worked out from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "lib/base/ids.h"

namespace muster::coordinator {

class Pace {
 public:
  // A record was written. A step that is done again, after a rewind, begins anew.
  void Add(int64_t unix_ms, Step step) {
    if (!seen_.empty() && step.value() <= seen_.back().step) seen_.clear();
    // Several records may be written at once.
    if (!seen_.empty() && seen_.back().unix_ms == unix_ms) seen_.pop_back();
    seen_.push_back({unix_ms, step.value()});
    while (seen_.size() > kMost || unix_ms - seen_.front().unix_ms > kLongestMs) seen_.pop_front();
  }

  // Nothing: not known yet.
  std::optional<double> SecondsPerStep() const {
    if (seen_.size() < 2) return std::nullopt;
    const double seconds = static_cast<double>(seen_.back().unix_ms - seen_.front().unix_ms) / 1e3;
    return seconds / static_cast<double>(seen_.back().step - seen_.front().step);
  }

 private:
  static constexpr size_t kMost = 40;
  static constexpr int64_t kLongestMs = 120'000;
  struct Seen {
    int64_t unix_ms = 0;
    int64_t step = 0;
  };
  std::deque<Seen> seen_;
};

}  // namespace muster::coordinator
