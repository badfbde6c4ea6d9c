#include "worker/runtime/gradient_tree.h"

#include <utility>

#include "lib/kernels/add.h"

namespace muster::worker {

void GradientTree::Add(LaneId lane, FlatPtr gradient, int64_t weight, double loss) {
  Begin(lane, std::move(gradient), weight, loss);
  for (int32_t c = 0; c < layout_.chunk_count(); ++c) FoldChunk(ChunkId(c));
}

void GradientTree::Begin(LaneId lane, FlatPtr gradient, int64_t weight, double loss) {
  additions_.clear();
  TreeNode at{lane.value(), lane.value() + 1};
  Node node{std::move(gradient), weight, loss, false};
  while (const std::optional<Family> family = FamilyOf(at, lanes_)) {
    auto found = nodes_.extract(family->sibling);
    if (found.empty()) break;
    const Node& sibling = found.mapped();
    const bool first = at < family->sibling;
    const Node& left = first ? node : sibling;
    const Node& right = first ? sibling : node;
    // One of them came just now, or was made just now, and nobody holds it.
    FlatPtr to = left.published ? right.sum : left.sum;
    additions_.push_back({left.sum, right.sum, to});
    node = Node{std::move(to), left.weight + right.weight, left.loss + right.loss, false};
    at = family->parent;
  }
  nodes_[at] = std::move(node);
}

void GradientTree::FoldChunk(ChunkId c) {
  const Chunk& chunk = layout_.chunk(c);
  for (const Addition& a : additions_) {
    if (chunk.kind != TensorKind::kBuffer) {
      muster::Add(a.left->of(chunk), a.right->of(chunk), a.to->of(chunk));
    } else if (a.to != a.left) {
      CopyFloats(a.left->of(chunk), a.to->of(chunk), copied_);
    }
  }
}

std::vector<Partial> GradientTree::Partials() const {
  std::vector<Partial> partials;
  for (const auto& [at, node] : nodes_) partials.push_back({at, node.weight, node.loss, 0});
  return partials;
}

std::map<TreeNode, FlatPtr> GradientTree::Sums() const {
  std::map<TreeNode, FlatPtr> sums;
  for (const auto& [at, node] : nodes_) sums[at] = node.sum;
  return sums;
}

void GradientTree::Publish() {
  additions_.clear();  // lets go of what they have consumed
  for (auto& [at, node] : nodes_) node.published = true;
}

void GradientTree::Clear() {
  additions_.clear();
  nodes_.clear();
}

}  // namespace muster::worker
