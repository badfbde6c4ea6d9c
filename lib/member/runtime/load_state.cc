#include "lib/member/runtime/load_state.h"

#include <vector>

#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/log/log.h"

namespace muster {

StateMemory EmptyState(const Setup& setup, bool slots) {
  StateMemory state{setup.pool->BorrowZeroed(), {}};
  for (int s = 0; slots && s < setup.slots; ++s) state.slots.push_back(setup.pool->BorrowZeroed());
  return state;
}

absl::StatusOr<StateMemory> LoadState(const Setup& setup, const Make& make,
                                      const std::function<void()>& after_each) {
  if (!make.manifest) return absl::InvalidArgumentError("no checkpoint is named to load from");
  LogInfo("reads the checkpoint of step %d: %s", make.manifest->step.value(),
          Plural(static_cast<int64_t>(make.chunks.size()), "chunk"));
  MUSTER_RETURN_IF_ERROR(CheckComplete(*make.manifest, setup.layout, setup.slots));
  StateMemory state = EmptyState(setup, make.slots);
  std::vector<PartDest> parts;
  for (ChunkId c : make.chunks) {
    const Chunk& chunk = setup.layout.chunk(c);
    parts.push_back({kValuesSlot, c, state.values->of(chunk)});
    if (chunk.kind != TensorKind::kParameter) continue;
    for (size_t s = 0; s < state.slots.size(); ++s)
      parts.push_back({static_cast<int32_t>(s) + 1, c, state.slots[s]->of(chunk)});
  }
  MUSTER_RETURN_IF_ERROR(LoadParts(*CheckpointFilesIn(setup.checkpoint_dir), *make.manifest,
                                   setup.layout, parts, after_each));
  return state;
}

}  // namespace muster
