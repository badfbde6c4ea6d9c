#include "lib/domain/lanes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace muster {

int32_t SplitPoint(TreeNode node) {
  const uint32_t n = static_cast<uint32_t>(node.lanes());
  return node.lo + static_cast<int32_t>(std::bit_floor(n - 1));
}

namespace {

void Cover(TreeNode node, const std::vector<bool>& held, std::vector<TreeNode>& out) {
  bool all = true, any = false;
  for (int32_t l = node.lo; l < node.hi; ++l) {
    all = all && held[static_cast<size_t>(l)];
    any = any || held[static_cast<size_t>(l)];
  }
  if (all) return out.push_back(node);
  if (!any) return;
  const int32_t mid = SplitPoint(node);
  Cover({node.lo, mid}, held, out);
  Cover({mid, node.hi}, held, out);
}

int32_t SubtreesOfRun(TreeNode run, TreeNode node) {
  if (run.hi <= node.lo || node.hi <= run.lo) return 0;
  if (run.lo <= node.lo && node.hi <= run.hi) return 1;
  const int32_t mid = SplitPoint(node);
  return SubtreesOfRun(run, {node.lo, mid}) + SubtreesOfRun(run, {mid, node.hi});
}

}  // namespace

std::optional<Family> FamilyOf(TreeNode node, int32_t lanes) {
  TreeNode at{0, lanes};
  std::optional<Family> family;
  while (at.lo <= node.lo && node.hi <= at.hi && node.lanes() > 0) {
    if (at == node) return family;
    if (at.lanes() == 1) return std::nullopt;
    const int32_t mid = SplitPoint(at);
    const TreeNode left{at.lo, mid}, right{mid, at.hi};
    const bool go_left = node.hi <= mid;
    family = Family{go_left ? right : left, at};
    at = go_left ? left : right;
  }
  return std::nullopt;
}

std::vector<TreeNode> Subtrees(const std::vector<LaneId>& held, int32_t lanes) {
  std::vector<bool> mask(static_cast<size_t>(lanes), false);
  for (LaneId l : held) mask[static_cast<size_t>(l.value())] = true;
  std::vector<TreeNode> out;
  Cover({0, lanes}, mask, out);
  return out;
}

std::vector<int32_t> BalancedLanes(int32_t lanes, int32_t holders) {
  const int32_t used = std::min(lanes, holders);
  const int32_t small = lanes / used, extra = lanes % used;
  // best[i][j]: fewest subtrees of the first i runs when j of them are one lane longer; from[i][j]:
  // was the last longer?
  const int32_t unreachable = std::numeric_limits<int32_t>::max() / 2;
  const size_t width = static_cast<size_t>(extra) + 1;
  std::vector<std::vector<int32_t>> best(static_cast<size_t>(used) + 1,
                                         std::vector<int32_t>(width, unreachable));
  std::vector<std::vector<char>> longer(best.size(), std::vector<char>(width, 0));
  best[0][0] = 0;
  for (int32_t i = 0; i < used; ++i)
    for (int32_t j = 0; j <= extra; ++j) {
      const int32_t cost = best[static_cast<size_t>(i)][static_cast<size_t>(j)];
      if (cost >= unreachable) continue;
      const int32_t lo = i * small + j;
      for (int32_t more = 0; more <= 1 && j + more <= extra; ++more) {
        const int32_t next = cost + SubtreesOfRun({lo, lo + small + more}, {0, lanes});
        int32_t& slot = best[static_cast<size_t>(i) + 1][static_cast<size_t>(j + more)];
        if (next >= slot) continue;
        slot = next;
        longer[static_cast<size_t>(i) + 1][static_cast<size_t>(j + more)] = static_cast<char>(more);
      }
    }
  std::vector<int32_t> holder_of(static_cast<size_t>(lanes));
  int32_t end = lanes, j = extra;
  for (int32_t i = used; i > 0; --i) {
    const int32_t more = longer[static_cast<size_t>(i)][static_cast<size_t>(j)];
    for (int32_t l = end - small - more; l < end; ++l) holder_of[static_cast<size_t>(l)] = i - 1;
    end -= small + more;
    j -= more;
  }
  return holder_of;
}

std::vector<LaneId> LanesOf(const std::vector<int32_t>& holder_of, int32_t holder) {
  std::vector<LaneId> lanes;
  for (size_t l = 0; l < holder_of.size(); ++l)
    if (holder_of[l] == holder) lanes.emplace_back(static_cast<int32_t>(l));
  return lanes;
}

std::vector<std::vector<LaneId>> LanesByHolder(const std::vector<int32_t>& holder_of,
                                               size_t holders) {
  std::vector<std::vector<LaneId>> lanes(holders);
  for (size_t l = 0; l < holder_of.size(); ++l)
    lanes[static_cast<size_t>(holder_of[l])].emplace_back(static_cast<int32_t>(l));
  return lanes;
}

}  // namespace muster
