#include "lib/member/runtime/step_boundary.h"

#include <algorithm>
#include <chrono>

#include "lib/base/hash.h"
#include "lib/base/time.h"
#include "lib/kernels/fingerprint.h"

namespace muster {
namespace {

// Of one slot (0: the values) of one chunk.
Fingerprint OfChunk(const Layout& layout, const Chunk& chunk, uint32_t slot,
                    absl::Span<const float> flat) {
  Fingerprint sum;
  for (size_t t : layout.TensorsIn(chunk.offset, chunk.count)) {
    const Placed& tensor = layout.tensors()[t];
    const int64_t begin = std::max(tensor.offset, chunk.offset);
    const int64_t end = std::min(tensor.offset + tensor.count, chunk.offset + chunk.count);
    if (begin >= end) continue;
    sum += FingerprintOf(
        HashBytes(tensor.spec.name), slot, static_cast<uint64_t>(begin - tensor.offset),
        flat.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  }
  return sum;
}

bool HasSlots(const Layout& layout, ChunkId chunk) {
  return layout.chunk(chunk).kind == TensorKind::kParameter;
}

// The slots (0: the values) that a checkpoint keeps of a chunk, as memory.
template <class F>
void ForEachSlot(const Layout& layout, const StateMemory& state, ChunkId chunk, F f) {
  f(0, state.values->all());
  if (!HasSlots(layout, chunk)) return;
  for (size_t s = 0; s < state.slots.size(); ++s)
    f(static_cast<int32_t>(s) + 1, state.slots[s]->all());
}

}  // namespace

std::vector<ChunkId> AllChunks(const Layout& layout) {
  std::vector<ChunkId> chunks;
  for (int32_t c = 0; c < layout.chunk_count(); ++c) chunks.emplace_back(c);
  return chunks;
}

FingerprintPart FingerprintOfState(const Setup& setup, const StateMemory& state,
                                   const std::vector<ChunkId>& chunks, bool whole,
                                   const std::function<void()>& after_each) {
  Fingerprint sum;
  for (ChunkId c : chunks) {
    ForEachSlot(setup.layout, state, c, [&](int32_t slot, absl::Span<const float> flat) {
      sum += OfChunk(setup.layout, setup.layout.chunk(c), static_cast<uint32_t>(slot), flat);
    });
    if (after_each) after_each();
  }
  return {sum.hi, sum.lo, whole};
}

size_t PartElements(const Setup& setup, const std::vector<ChunkId>& chunks) {
  size_t elements = 0;
  for (ChunkId c : chunks) {
    const size_t copies = HasSlots(setup.layout, c) ? 1 + static_cast<size_t>(setup.slots) : 1;
    elements += copies * static_cast<size_t>(setup.layout.chunk(c).count);
  }
  return elements;
}

CheckpointPartCopy CopyCheckpointPart(const Setup& setup, const StateMemory& state,
                                      LineageNumber lineage, Step step,
                                      const std::vector<ChunkId>& chunks, CopyCounter& copied,
                                      const std::function<void()>& after_each) {
  const auto begin = std::chrono::steady_clock::now();
  CheckpointPartCopy part{lineage, step, nullptr, {}, 0};
  size_t elements = 0;
  for (ChunkId c : chunks)
    ForEachSlot(setup.layout, state, c, [&](int32_t, absl::Span<const float>) {
      elements += static_cast<size_t>(setup.layout.chunk(c).count);
    });
  part.values = setup.part_memory->Borrow(elements);
  size_t at = 0;
  for (ChunkId c : chunks) {
    const Chunk& chunk = setup.layout.chunk(c);
    const auto first = static_cast<size_t>(chunk.offset), count = static_cast<size_t>(chunk.count);
    ForEachSlot(setup.layout, state, c, [&](int32_t slot, absl::Span<const float> flat) {
      const absl::Span<float> to(part.values.get() + at, count);
      CopyFloats(flat.subspan(first, count), to, copied);
      part.parts.push_back({slot, c, to});
      at += count;
    });
    if (after_each) after_each();
  }
  part.stall_seconds = Seconds(std::chrono::steady_clock::now() - begin);
  return part;
}

}  // namespace muster
