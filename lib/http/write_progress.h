// How far one write has come, and until when its client has time to take more. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "lib/base/time.h"

namespace muster::http {

struct WriteProgress {
  Time began{};
  Time moved{};      // when some of it was taken last; at first: when it began
  size_t taken = 0;  // bytes
};

// The client may rest for `patience` at a time, so that a large answer comes through on a slow
// link. But whoever takes a byte now and then would keep its room without end: so, on top of one
// such rest, all of it has to come at `pace` bytes a second at least. As bytes are taken, it moves
// later and never earlier.
inline Time WriteDeadline(const WriteProgress& progress, Duration patience, size_t pace) {
  const auto at_pace =
      std::chrono::milliseconds(static_cast<int64_t>(progress.taken * 1000 / pace));
  return std::min(progress.moved + patience, progress.began + patience + at_pace);
}

}  // namespace muster::http
