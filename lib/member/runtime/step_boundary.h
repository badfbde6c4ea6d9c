// What is taken from a state between two steps: a fingerprint, and a copy of this member's
// part of a checkpoint. Any thread that may read the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/domain/ledger.h"
#include "lib/domain/message.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/setup.h"
#include "lib/wire/tensor_copy.h"

namespace muster {

// Over the values of these chunks, then their optimizer slots. `whole`: they are all there is.
// Calls `after_each`, if given, after each chunk.
FingerprintPart FingerprintOfState(const Setup& setup, const StateMemory& state,
                                   const std::vector<ChunkId>& chunks, bool whole,
                                   const std::function<void()>& after_each = {});

// Of a copy of these chunks, where their owner applies.
size_t PartElements(const Setup& setup, const std::vector<ChunkId>& chunks);

// These chunks, with their slots.
CheckpointPartCopy CopyCheckpointPart(const Setup& setup, const StateMemory& state,
                                      LineageNumber lineage, Step step,
                                      const std::vector<ChunkId>& chunks, CopyCounter& copied,
                                      const std::function<void()>& after_each = {});

std::vector<ChunkId> AllChunks(const Layout& layout);

}  // namespace muster
