// The chunk grid that a training specification asks for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/frame_limits.h"
#include "lib/domain/job.h"

namespace muster {

// Bytes of a chunk: training.chunk_bytes, or less with more than 32 lanes, so that all subtrees of
// a chunk that one member can hold (every other lane: half of them, rounded up) fit into one frame.
inline int64_t ChunkBytes(const TrainingSpec& training) {
  constexpr auto kFrame = static_cast<int64_t>(kMaxPayloadBytes);
  const int64_t subtrees = (training.lanes + 1) / 2;
  return std::min(training.chunk_bytes, kFrame / subtrees / 64 * 64);
}

}  // namespace muster
