#include "lib/owner/state/sums.h"

#include "lib/base/status.h"

namespace muster {

Sums::Sums(int32_t lanes, const LaneMap& map, std::vector<TensorKind> kinds, SumOrder order)
    : lanes_(lanes), map_(map), kinds_(std::move(kinds)), order_(order) {}

std::vector<TreeNode> Sums::Expected(int32_t sender, TensorKind kind) const {
  const std::vector<LaneId> held = LanesOf(map_.holder_of, sender);
  if (kind != TensorKind::kBuffer) return Subtrees(held, lanes_);
  if (!held.empty() && held.front() == LaneId(0)) return {{0, 1}};
  return {};
}

bool Sums::HasFrom(int32_t sender, ChunkId chunk) const {
  const auto it = chunks_.find(chunk);
  return it != chunks_.end() && it->second.from.count(sender) > 0;
}

absl::Status Sums::Check(int32_t sender, const ChunkPartials& arrival) const {
  const TensorKind kind = kinds_[static_cast<size_t>(arrival.chunk.value())];
  const std::vector<TreeNode> expected = Expected(sender, kind);
  bool fits = !expected.empty() && expected.size() == arrival.partials.size();
  for (size_t i = 0; fits && i < expected.size(); ++i)
    fits = arrival.partials[i].node == expected[i];
  if (!fits)
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk ", arrival.chunk.value(), ": not the subtrees that member ", sender, " holds"));
  if (HasFrom(sender, arrival.chunk)) return absl::AlreadyExistsError("these partials came before");
  return absl::OkStatus();
}

absl::StatusOr<Additions> Sums::Add(int32_t sender, const ChunkPartials& arrival) {
  MUSTER_RETURN_IF_ERROR(Check(sender, arrival));
  const TensorKind kind = kinds_[static_cast<size_t>(arrival.chunk.value())];
  Progress& chunk = chunks_[arrival.chunk];
  chunk.from.insert(sender);
  Additions additions;
  const TreeNode root = kind == TensorKind::kBuffer ? TreeNode{0, 1} : TreeNode{0, lanes_};
  for (const Partial& partial : arrival.partials) {
    if (order_ == SumOrder::kFree) {
      PlaceAnywhere(chunk, root, partial, additions);
    } else {
      Place(chunk, root, partial, additions);
    }
  }
  return additions;
}

void Sums::Place(Progress& chunk, TreeNode root, Partial arrived, Additions& additions) const {
  while (arrived.node != root) {
    const Family family = *FamilyOf(arrived.node, lanes_);
    const auto sibling = chunk.waiting.find(family.sibling);
    if (sibling == chunk.waiting.end()) {
      chunk.waiting[arrived.node] = arrived;
      return;
    }
    const bool first = arrived.node < family.sibling;
    const Partial& left = first ? arrived : sibling->second;
    const Partial& right = first ? sibling->second : arrived;
    additions.folds.push_back({left.node, right.node, family.parent});
    arrived = Partial{family.parent, left.weight + right.weight, left.loss + right.loss, 0};
    chunk.waiting.erase(sibling);
  }
  additions.total = arrived;
}

void Sums::PlaceAnywhere(Progress& chunk, TreeNode root, Partial arrived,
                         Additions& additions) const {
  chunk.lanes_in += arrived.node.lanes();
  if (!chunk.waiting.empty()) {
    const Partial sum = chunk.waiting.begin()->second;
    additions.folds.push_back({sum.node, arrived.node, sum.node});
    arrived = Partial{sum.node, sum.weight + arrived.weight, sum.loss + arrived.loss, 0};
  }
  chunk.waiting = {{arrived.node, arrived}};
  if (chunk.lanes_in == root.lanes()) additions.total = arrived;
}

}  // namespace muster
