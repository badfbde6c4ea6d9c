// A view as one of its members sees it. Lives from the moment that the view becomes active until
// the next one does; it never changes.
#pragma once

#include <memory>
#include <vector>

#include "lib/domain/lanes.h"
#include "lib/domain/view.h"

namespace muster {

struct Seat {
  View view;
  int32_t me = -1;  // our index among the view's members

  const ViewMember& MemberAt(int32_t index) const {
    return view.members[static_cast<size_t>(index)];
  }
  int32_t OwnerOf(ChunkId c) const { return view.owner_of[static_cast<size_t>(c.value())]; }
  bool Owns(ChunkId c) const { return me >= 0 && OwnerOf(c) == me; }
  std::vector<ChunkId> OwnChunks() const;
  // The chunk's sum was complete before the view began: it is never summed again.
  bool IsDone(Step step, ChunkId c) const {
    return step == view.first_step && view.first_done[static_cast<size_t>(c.value())];
  }
  std::vector<LaneId> LanesAt(Step step) const { return LanesOf(view.LanesAt(step).holder_of, me); }
  bool HasPart(int32_t index) const { return view.HasPart(index); }
};

// Parts share what never changes.
using SeatPtr = std::shared_ptr<const Seat>;

}  // namespace muster
