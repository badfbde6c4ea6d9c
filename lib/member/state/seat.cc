#include "lib/member/state/seat.h"

#include <algorithm>

namespace muster {

std::vector<ChunkId> Seat::OwnChunks() const {
  std::vector<ChunkId> own;
  for (size_t c = 0; c < view.owner_of.size(); ++c)
    if (view.owner_of[c] == me) own.emplace_back(static_cast<int32_t>(c));
  return own;
}

bool Seat::HasPart(int32_t index) const {
  if (index < 0) return false;
  const auto names_it = [&](const std::vector<int32_t>& holders) {
    return std::find(holders.begin(), holders.end(), index) != holders.end();
  };
  if (MemberAt(index).role == Role::kServer) return names_it(view.owner_of);
  return names_it(view.lanes.holder_of) || names_it(view.first_lanes.holder_of);
}

}  // namespace muster
