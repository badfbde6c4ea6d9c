// What a member fetches to reach the base of a forming view, as data (docs/protocol.md section 4).
// A Wants lives as long as one stage of a plan.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "lib/domain/message.h"

namespace muster {

// One piece wanted, and from whom (index into the plan's members).
struct Want {
  PieceKind kind = PieceKind::kValues;
  int32_t slot = 0;
  Step step;
  ChunkId chunk;
  int32_t from = -1;
};

// The pieces still missing.
class Wants {
 public:
  Wants() = default;
  explicit Wants(const std::vector<Want>& wants);
  bool empty() const { return missing_.empty(); }
  // True when the piece was wanted and is now no longer missing.
  bool Arrive(PieceKind kind, int32_t slot, Step step, ChunkId chunk);
  // The fetches that ask `from` for what is missing, at most `chunks_per_fetch` chunks each.
  std::vector<Fetch> Ask(ViewNumber view, int32_t from, size_t chunks_per_fetch) const;
  std::vector<int32_t> Donors() const;

 private:
  using Key = std::tuple<Step, PieceKind, int32_t, ChunkId>;
  std::map<Key, int32_t> missing_;
};

// Which pieces member `me` needs in the first stage (to hold state(base)) and in the second (the
// done results of base). `held`: results of the step it is at that it has already.
std::vector<Want> StageOne(const HealPlan& plan, int32_t me, int32_t slots,
                           const std::vector<TensorKind>& chunks, bool applies,
                           const ChunkSet& held);
std::vector<Want> StageTwo(const HealPlan& plan, int32_t me, const ChunkSet& held);

}  // namespace muster
