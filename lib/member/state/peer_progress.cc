#include "lib/member/state/peer_progress.h"

namespace muster {
namespace {

std::vector<ChunkId> MarkMissing(ChunkSet& had, const std::vector<ChunkId>& offered) {
  std::vector<ChunkId> missing;
  for (ChunkId c : offered) {
    const auto i = static_cast<size_t>(c.value());
    if (had[i]) continue;
    had[i] = true;
    missing.push_back(c);
  }
  return missing;
}

}  // namespace

PeerProgress PeerProgress::FromInventory(const Inventory& inventory, Step open) {
  const size_t chunks = inventory.results.size();
  // Stale: delayed in transit from a peer we do not wait for. It has reached our step since.
  if (inventory.step + 1 < open) return {open, chunks};
  PeerProgress progress(inventory.step, chunks);
  if (inventory.step > open) {  // it is done with our step, so it has all of it
    progress.partials_.assign(chunks, true);
    progress.results_.assign(chunks, true);
  } else {
    progress.partials_ = inventory.partials;
    progress.results_ = inventory.results;
  }
  return progress;
}

std::vector<ChunkId> PeerProgress::PartialsToSend(const std::vector<ChunkId>& offered) {
  return MarkMissing(partials_, offered);
}

std::vector<ChunkId> PeerProgress::ResultsToSend(const std::vector<ChunkId>& offered) {
  return MarkMissing(results_, offered);
}

}  // namespace muster
