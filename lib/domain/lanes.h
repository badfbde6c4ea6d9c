// The canonical tree over the lanes of a job (docs/architecture.md section 1) and who holds which
// lanes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/ids.h"

namespace muster {

// A node covers the lanes [lo, hi). The root is [0, L); a node of more than one lane has two
// children, cut at lo + the largest power of two below hi - lo.
struct TreeNode {
  int32_t lo = 0;
  int32_t hi = 0;
  constexpr auto operator<=>(const TreeNode&) const = default;
  int32_t lanes() const { return hi - lo; }
};

int32_t SplitPoint(TreeNode node);  // node.lanes() > 1
// The other child of the node's parent, and the parent; nothing for the root and for what is no
// node of the tree.
struct Family {
  TreeNode sibling;
  TreeNode parent;
};
std::optional<Family> FamilyOf(TreeNode node, int32_t lanes);

// The fewest tree nodes that cover exactly these lanes (ascending, each once), in ascending order.
std::vector<TreeNode> Subtrees(const std::vector<LaneId>& held, int32_t lanes);

// lane → holder index in 0 … holders-1: contiguous runs whose lengths differ by at most one, cut
// where the fewest subtrees result. holders is at least 1; holders beyond `lanes` hold nothing.
std::vector<int32_t> BalancedLanes(int32_t lanes, int32_t holders);

// The lanes of `holder` in a lane → holder map, ascending.
std::vector<LaneId> LanesOf(const std::vector<int32_t>& holder_of, int32_t holder);
// The same for all holders 0 … holders-1 at once.
std::vector<std::vector<LaneId>> LanesByHolder(const std::vector<int32_t>& holder_of,
                                               size_t holders);

}  // namespace muster
