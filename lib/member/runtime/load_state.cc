#include "lib/member/runtime/load_state.h"

#include <vector>

#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/domain/fork.h"
#include "lib/domain/grid.h"
#include "lib/log/log.h"

namespace muster {

namespace {

// What of the layout the checkpoint has. A fork's first one was made of its parent's state, by who
// does not know what the fork measures: it is without sums and phases, which begin as zeros. Their
// chunks are the last ones, so all others are the same.
absl::StatusOr<Layout> LayoutThere(const Manifest& manifest, const Setup& setup) {
  if (manifest.step > Step(0)) return setup.layout;
  std::vector<TensorSpec> tensors;
  for (const Placed& tensor : setup.layout.tensors()) tensors.push_back(tensor.spec);
  return Layout::Make(OfModel(tensors), ChunkBytes(setup.spec.training));
}

}  // namespace

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
  MUSTER_ASSIGN_OR_RETURN(const Layout there, LayoutThere(*make.manifest, setup));
  MUSTER_RETURN_IF_ERROR(CheckComplete(*make.manifest, there, setup.slots));
  StateMemory state = EmptyState(setup, make.slots);
  std::vector<PartDest> parts;
  for (ChunkId c : make.chunks) {
    const Chunk& chunk = setup.layout.chunk(c);
    if (c.value() >= there.chunk_count()) continue;
    parts.push_back({kValuesSlot, c, state.values->of(chunk)});
    if (chunk.kind != TensorKind::kParameter) continue;
    for (size_t s = 0; s < state.slots.size(); ++s)
      parts.push_back({static_cast<int32_t>(s) + 1, c, state.slots[s]->of(chunk)});
  }
  MUSTER_RETURN_IF_ERROR(LoadParts(*CheckpointFilesIn(setup.checkpoint_dir), *make.manifest, there,
                                   parts, after_each));
  return state;
}

}  // namespace muster
