#include "lib/member/state/seat.h"

namespace muster {

std::vector<ChunkId> Seat::OwnChunks() const {
  std::vector<ChunkId> own;
  for (size_t c = 0; c < view.owner_of.size(); ++c)
    if (view.owner_of[c] == me) own.emplace_back(static_cast<int32_t>(c));
  return own;
}

}  // namespace muster
