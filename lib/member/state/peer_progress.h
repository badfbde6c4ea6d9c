// What one peer has of our open step. Lives as long as a session in an active view, from the peer's
// inventory on; at each step a new one takes its place.
#pragma once

#include <vector>

#include "lib/domain/message.h"

namespace muster {

class PeerProgress {
 public:
  // At the beginning of `step` a peer has nothing of it.
  PeerProgress(Step step, size_t chunks)
      : step_(step), partials_(chunks, false), results_(chunks, false) {}
  // As the peer said, seen from our open step.
  static PeerProgress FromInventory(const Inventory& inventory, Step open);

  Step step() const { return step_; }  // the peer's open step
  // Those of `offered` that the peer lacks; they are sent now, so it counts as having them.
  std::vector<ChunkId> PartialsToSend(const std::vector<ChunkId>& offered);
  std::vector<ChunkId> ResultsToSend(const std::vector<ChunkId>& offered);

 private:
  Step step_;
  ChunkSet partials_;  // chunks it owns for which it needs nothing more of us
  ChunkSet results_;
};

}  // namespace muster
