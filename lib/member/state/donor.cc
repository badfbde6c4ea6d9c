#include "lib/member/state/donor.h"

#include <algorithm>

namespace muster {

LocalState LocalStateOf(const HeldState& state) {
  LocalState held;
  held.has_state = true;
  held.lineage = state.lineage;
  held.step = state.step();
  held.results = held.sums = state.open.results();
  for (ChunkId c : state.open.CompleteSums()) held.sums[static_cast<size_t>(c.value())] = true;
  held.previous_results = state.closed.has_value();
  held.lanes = state.open.lanes();
  return held;
}

bool HasPieces(const MemberConfig& config, const HeldState& state,
               const std::vector<int32_t>& owner_of, int32_t me, const Fetch& fetch) {
  const bool is_open = state.step() == fetch.step;
  const bool is_closed = state.step() == fetch.step + 1 && state.closed;
  return std::all_of(fetch.chunks.begin(), fetch.chunks.end(), [&](ChunkId c) {
    if (!config.has_chunk(c)) return false;
    if (config.role == Role::kServer && owner_of[static_cast<size_t>(c.value())] != me)
      return false;
    if (fetch.kind == PieceKind::kResult) return is_closed || (is_open && state.open.HasResult(c));
    // An owner that applies keeps the previous step's values in its other buffer.
    return is_open || (is_closed && fetch.kind == PieceKind::kValues && config.owner_applies());
  });
}

Pieces PiecesFor(const HeldState& state, LineageNumber lineage, const Fetch& fetch) {
  Pieces pieces{fetch.view, lineage, fetch.kind, fetch.slot, fetch.step, {}, {}, {}};
  const bool is_result = fetch.kind == PieceKind::kResult;
  const bool is_open = state.step() == fetch.step;
  if (is_result && !is_open) pieces.record = state.closed->record;
  for (ChunkId c : fetch.chunks) {
    ChunkResult piece{c, {}};
    if (is_result)
      piece.meta =
          is_open ? state.open.MetaOf(c) : state.closed->meta[static_cast<size_t>(c.value())];
    if (is_result && c == ChunkId(0))
      pieces.commands = is_open ? state.open.commands() : state.closed->commands;
    pieces.chunks.push_back(piece);
  }
  return pieces;
}

}  // namespace muster
