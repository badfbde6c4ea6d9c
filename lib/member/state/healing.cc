#include "lib/member/state/healing.h"

#include <set>

namespace muster {

Wants::Wants(const std::vector<Want>& wants) {
  for (const Want& w : wants) missing_[{w.step, w.kind, w.slot, w.chunk}] = w.from;
}

bool Wants::Arrive(PieceKind kind, int32_t slot, Step step, ChunkId chunk) {
  return missing_.erase({step, kind, slot, chunk}) > 0;
}

std::vector<Fetch> Wants::Ask(ViewNumber view, int32_t from, size_t chunks_per_fetch) const {
  std::vector<Fetch> fetches;
  for (const auto& [key, donor] : missing_) {
    if (donor != from) continue;
    const auto& [step, kind, slot, chunk] = key;
    const bool same = !fetches.empty() && fetches.back().kind == kind &&
                      fetches.back().slot == slot && fetches.back().step == step &&
                      fetches.back().chunks.size() < chunks_per_fetch;
    if (!same) fetches.push_back({view, kind, slot, step, {}});
    fetches.back().chunks.push_back(chunk);
  }
  return fetches;
}

std::vector<int32_t> Wants::Donors() const {
  std::set<int32_t> donors;
  for (const auto& [key, donor] : missing_) donors.insert(donor);
  return {donors.begin(), donors.end()};
}

std::vector<Want> StageOne(const HealPlan& plan, int32_t me, int32_t slots,
                           const std::vector<TensorKind>& chunks, bool applies,
                           const ChunkSet& held) {
  std::vector<Want> wants;
  const bool server = plan.members[static_cast<size_t>(me)].role == Role::kServer;
  const HealBy how = plan.how[static_cast<size_t>(me)];
  for (size_t c = 0; c < chunks.size(); ++c) {
    const ChunkId chunk(static_cast<int32_t>(c));
    // Chunk 0 in any case: the record of the step comes with it.
    if (how == HealBy::kCatchUp && (!held[c] || (c == 0 && plan.catch_up_from[c] != me)))
      wants.push_back({PieceKind::kResult, 0, plan.base - 1, chunk, plan.catch_up_from[c]});
    if (how != HealBy::kCopy || (server && plan.owner_of[c] != me)) continue;
    wants.push_back({PieceKind::kValues, 0, plan.base, chunk, plan.values_from[c]});
    if (!applies || chunks[c] != TensorKind::kParameter || plan.slots_from[c] < 0) continue;
    for (int32_t slot = 0; slot < slots; ++slot)
      wants.push_back({PieceKind::kSlot, slot, plan.base, chunk, plan.slots_from[c]});
  }
  return wants;
}

std::vector<Want> StageTwo(const HealPlan& plan, int32_t me, const ChunkSet& held) {
  std::vector<Want> wants;
  const auto i = static_cast<size_t>(me);
  if (plan.members[i].role == Role::kServer || plan.how[i] == HealBy::kNothing) return wants;
  for (size_t c = 0; c < plan.done.size(); ++c)
    if (plan.done[c] && !held[c])
      wants.push_back(
          {PieceKind::kResult, 0, plan.base, ChunkId(static_cast<int32_t>(c)), plan.done_from[c]});
  return wants;
}

}  // namespace muster
