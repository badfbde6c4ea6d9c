// Every part of the simulation uses these. Lives as long as the world.
#pragma once

#include "tests/sim/coverage.h"
#include "tests/sim/network.h"
#include "tests/sim/schedule.h"
#include "tests/sim/trace.h"

namespace muster::sim {

struct Around {
  Schedule& schedule;
  Network& network;
  Trace& trace;
  Coverage& coverage;
};

}  // namespace muster::sim
