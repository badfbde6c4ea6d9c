// What a member gives to those that heal from it. Functions of values; nothing lives here.
#pragma once

#include <optional>

#include "lib/member/state/config.h"
#include "lib/member/state/open_step.h"

namespace muster {

// What a member tells the coordinator for the plan of a new view.
LocalState LocalStateOf(const HeldState& state);
// Does `state` have all that is asked for? `owner_of` and `me`: of the view to come, or of the
// active one; a server has only its own chunks.
bool HasPieces(const MemberConfig& config, const HeldState& state,
               const std::vector<int32_t>& owner_of, int32_t me, const Fetch& fetch);
Pieces PiecesFor(const HeldState& state, LineageNumber lineage, const Fetch& fetch);

}  // namespace muster
