// What a seed stands for.
#pragma once

#include "tests/sim/world.h"

namespace muster::sim {

inline WorldOptions OptionsOf(uint64_t seed) {
  auto pick = [&](uint64_t salt, int32_t low, int32_t high) {
    return low + static_cast<int32_t>(Mix64(seed, salt) % static_cast<uint64_t>(high - low + 1));
  };
  WorldOptions options;
  options.seed = seed;
  options.sync = seed % 2 == 0 ? Sync::kServer : Sync::kAllreduce;
  options.workers = pick(1, 2, 4);
  options.servers = pick(2, 2, 3);
  options.lanes = pick(3, 1, 7);
  options.chunks = pick(4, 3, 6);
  options.steps = pick(5, 30, 120);
  options.checkpoint_every = pick(6, 0, 8);
  options.clip_norm = pick(7, 0, 1);
  options.faults = pick(8, 2, 14);
  return options;
}

}  // namespace muster::sim
