#include "lib/member/state/healer.h"

#include <algorithm>

namespace muster {
namespace {

constexpr size_t kChunksPerFetch = 8;

}  // namespace

std::optional<int32_t> IndexIn(const HealPlan& plan, const MemberId& id) {
  for (size_t i = 0; i < plan.members.size(); ++i)
    if (plan.members[i].id == id) return static_cast<int32_t>(i);
  return std::nullopt;
}

Healer::Healer(ConfigPtr config, ViewNumber view, HealPlan plan, int32_t me, const ChunkSet& held)
    : config_(std::move(config)),
      view_(view),
      plan_(std::move(plan)),
      me_(me),
      wants_(StageOne(plan_, me_, config_->slots, config_->chunks, config_->applies(), held)) {}

std::vector<Action> Healer::Begin() const {
  if (how() == HealBy::kCopy) return {PrepareCopy{plan_.lineage, plan_.base}};
  if (!MakesState()) return {};
  Make make{plan_.lineage, plan_.base, plan_.manifest, {}, config_->applies()};
  for (int32_t c = 0; c < config_->chunk_count(); ++c)
    if (config_->role == Role::kWorker || plan_.owner_of[static_cast<size_t>(c)] == me_)
      make.chunks.emplace_back(c);
  return {std::move(make)};
}

std::vector<Action> Healer::Ask(const std::set<MemberId>& reachable) const {
  std::vector<Action> actions;
  for (int32_t donor : wants_.Donors()) {
    const MemberId& id = plan_.members[static_cast<size_t>(donor)].id;
    if (reachable.count(id) == 0) continue;
    for (Fetch& fetch : wants_.Ask(view_, donor, kChunksPerFetch))
      actions.emplace_back(Send{id, std::move(fetch)});
  }
  return actions;
}

std::vector<ChunkId> Healer::Arrive(const Pieces& pieces) {
  std::vector<ChunkId> wanted;
  for (const ChunkResult& piece : pieces.chunks)
    if (wants_.Arrive(pieces.kind, pieces.slot, pieces.step, piece.chunk))
      wanted.push_back(piece.chunk);
  return wanted;
}

void Healer::Handle(const MemberId& from, const Pieces& pieces, std::optional<HeldState>& state,
                    Outcome& out) {
  if (!Names(from)) return out.Refuse("it is no member of this view");
  if (pieces.lineage != plan_.lineage) return out.Refuse("pieces of another lineage");
  // A server without the sums may have done the step in an older view than those whose records
  // count.
  const bool counts = pieces.record && !(pieces.record->without_weight && config_->has_sums());
  if (state && counts && pieces.record->step == state->step())
    state->open.SetRecord(*pieces.record);
  std::vector<ChunkId> wanted = Arrive(pieces);
  if (wanted.empty()) return out.Drop("nothing that is still wanted");
  if (pieces.kind != PieceKind::kResult)
    return out.Do(StorePieces{pieces.kind, pieces.slot, pieces.step, std::move(wanted)});
  for (const ChunkResult& piece : pieces.chunks)
    if (std::find(wanted.begin(), wanted.end(), piece.chunk) != wanted.end())
      state->open.AddResult(piece, pieces.commands);
  out.Do(StoreResults{pieces.step, std::move(wanted)});
}

Healer::Next Healer::NextFor(Step open) const {
  if (told_ || failure_ || !wants_.empty()) return Next::kWait;
  if (at_base_) return Next::kTellBase;
  return CatchesUp(open) ? Next::kApply : Next::kBase;
}

void Healer::ReachBase(const ChunkSet& held) {
  at_base_ = true;
  wants_ = Wants(StageTwo(plan_, me_, held));
}

}  // namespace muster
