// Every part of the simulation uses these. Lives as long as the world.
#pragma once

#include <chrono>
#include <cstdint>

#include "lib/base/time.h"
#include "tests/sim/coverage.h"
#include "tests/sim/network.h"
#include "tests/sim/schedule.h"
#include "tests/sim/trace.h"

namespace muster::sim {

inline Time TimeOf(int64_t ms) { return Time(std::chrono::milliseconds(ms)); }

// Shorter than as it is by default, so that threads that hang are found within a seed.
inline constexpr std::chrono::seconds kThreadPatience{8};

struct Around {
  Schedule& schedule;
  Network& network;
  Trace& trace;
  Coverage& coverage;
};

}  // namespace muster::sim
