#include "tests/sim/checkpoint_files.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

Value SlotOf(const SimState& state, int32_t slot, size_t chunk) {
  return slot == 0 ? (*state.values)[chunk] : (*state.slots)[static_cast<size_t>(slot) - 1][chunk];
}

int32_t LastSlot(const Terms& terms, size_t chunk) {
  return terms.parameter(chunk) ? terms.slots() : 0;
}

}  // namespace

PartCopy CopyPart(const Terms& terms, const SimState& state, LineageNumber lineage, Step step,
                  const std::vector<ChunkId>& chunks) {
  PartCopy part{lineage, step, {}};
  for (ChunkId chunk : chunks) {
    const auto c = static_cast<size_t>(chunk.value());
    for (int32_t slot = 0; slot <= LastSlot(terms, c); ++slot)
      part.content[{slot, chunk.value()}] = SlotOf(state, slot, c);
  }
  return part;
}

std::vector<SegmentEntry> EntriesOf(const PartCopy& part) {
  std::vector<SegmentEntry> entries;
  for (const auto& [key, value] : part.content)
    entries.push_back({key.first, ChunkId(key.second), 0, 4, 0});
  return entries;
}

SimState EmptyState(const Terms& terms, bool slots) {
  const auto n = static_cast<size_t>(terms.chunks());
  SimState state{std::make_shared<std::vector<Value>>(n, kTorn), nullptr};
  if (!slots) return state;
  state.slots = std::make_shared<SlotValues>(static_cast<size_t>(terms.slots()));
  for (std::vector<Value>& slot : *state.slots)
    for (size_t c = 0; c < n; ++c) slot.push_back(terms.ZeroSlot(c));
  return state;
}

absl::StatusOr<SimState> MakeState(const Terms& terms, const Disk& disk, const Make& make) {
  SimState state = EmptyState(terms, make.slots);
  std::set<int32_t> asked_for;
  for (ChunkId chunk : make.chunks) asked_for.insert(chunk.value());
  if (!make.manifest) {
    for (size_t c = 0; c < state.values->size(); ++c) (*state.values)[c] = terms.Initial(c);
    return state;
  }
  for (const Segment& segment : make.manifest->segments) {
    const auto file = disk.find(segment.file);
    if (file == disk.end()) return absl::InternalError(absl::StrCat("nobody wrote ", segment.file));
    for (const SegmentEntry& e : segment.entries) {
      if (asked_for.count(e.chunk.value()) == 0 || (e.slot > 0 && !state.slots)) continue;
      if (file->second.damaged)
        return absl::DataLossError(absl::StrCat(segment.file, ": a checksum does not fit"));
      const Value value = file->second.content.at({e.slot, e.chunk.value()});
      const auto c = static_cast<size_t>(e.chunk.value());
      (e.slot == 0 ? *state.values : (*state.slots)[static_cast<size_t>(e.slot) - 1])[c] = value;
    }
  }
  return state;
}

FingerprintPart FingerprintOf(const Terms& terms, const SimState& state,
                              const std::vector<ChunkId>& chunks, bool whole) {
  FingerprintPart part;
  part.whole = whole;
  for (ChunkId chunk : chunks) {
    const auto c = static_cast<size_t>(chunk.value());
    for (int32_t slot = 0; slot <= LastSlot(terms, c); ++slot)
      part.lo += Mix64(Mix64(static_cast<uint64_t>(slot), c), SlotOf(state, slot, c));
  }
  return part;
}

}  // namespace muster::sim
