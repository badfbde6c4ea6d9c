#include "lib/domain/lanes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// ---- the slow twin: the definition, written out

struct SlowTree {
  std::set<TreeNode> nodes;
  std::map<TreeNode, Family> families;

  explicit SlowTree(int32_t lanes) { Grow({0, lanes}); }

 private:
  void Grow(TreeNode node) {
    nodes.insert(node);
    if (node.lanes() == 1) return;
    int32_t below = 1;  // the largest power of two below the number of lanes
    while (below * 2 < node.lanes()) below *= 2;
    const TreeNode left{node.lo, node.lo + below}, right{node.lo + below, node.hi};
    families[left] = {right, node};
    families[right] = {left, node};
    Grow(left);
    Grow(right);
  }
};

// The tree's nodes form a laminar family, so the largest ones inside a set are the fewest that
// cover it.
std::vector<TreeNode> SlowSubtrees(const std::set<int32_t>& held, int32_t lanes) {
  auto inside = [&](TreeNode node) {
    for (int32_t l = node.lo; l < node.hi; ++l)
      if (held.count(l) == 0) return false;
    return true;
  };
  const SlowTree tree(lanes);
  std::vector<TreeNode> largest;
  for (const TreeNode& node : tree.nodes) {
    const auto family = tree.families.find(node);
    if (inside(node) && (family == tree.families.end() || !inside(family->second.parent)))
      largest.push_back(node);
  }
  return largest;
}

std::vector<LaneId> Lanes(const std::set<int32_t>& of) {
  std::vector<LaneId> lanes;
  for (int32_t l : of) lanes.emplace_back(l);
  return lanes;
}

int32_t SubtreesInAll(const std::vector<int32_t>& holder_of) {
  const auto lanes = static_cast<int32_t>(holder_of.size());
  int32_t sum = 0;
  for (int32_t h = 0; h <= *std::max_element(holder_of.begin(), holder_of.end()); ++h)
    sum += static_cast<int32_t>(Subtrees(LanesOf(holder_of, h), lanes).size());
  return sum;
}

// The fewest subtrees over all ways to say which runs are one lane longer.
int32_t FewestSubtrees(int32_t lanes, int32_t holders) {
  const int32_t used = std::min(lanes, holders), small = lanes / used, extra = lanes % used;
  std::vector<int32_t> longer(static_cast<size_t>(used), 0);
  std::fill(longer.end() - extra, longer.end(), 1);
  int32_t fewest = lanes + 1;
  do {
    std::vector<int32_t> holder_of;
    for (int32_t h = 0; h < used; ++h)
      holder_of.insert(holder_of.end(), static_cast<size_t>(small + longer[static_cast<size_t>(h)]),
                       h);
    fewest = std::min(fewest, SubtreesInAll(holder_of));
  } while (std::next_permutation(longer.begin(), longer.end()));
  return fewest;
}

// Contiguous, in order, lengths differ by at most one, nobody beyond the lanes holds any.
void ExpectBalanced(const std::vector<int32_t>& holder_of, int32_t lanes, int32_t holders) {
  ASSERT_EQ(holder_of.size(), static_cast<size_t>(lanes));
  const int32_t used = std::min(lanes, holders);
  EXPECT_EQ(holder_of.front(), 0);
  EXPECT_EQ(holder_of.back(), used - 1);
  for (size_t l = 1; l < holder_of.size(); ++l) {
    EXPECT_GE(holder_of[l], holder_of[l - 1]);
    EXPECT_LE(holder_of[l], holder_of[l - 1] + 1);
  }
  for (int32_t h = 0; h < used; ++h) {
    const auto held = static_cast<int32_t>(LanesOf(holder_of, h).size());
    EXPECT_GE(held, lanes / used);
    EXPECT_LE(held, (lanes + used - 1) / used);
  }
}

// ---- the tree

TEST(Tree, SplitsAtTheLargestPowerOfTwoBelowTheLength) {
  EXPECT_EQ(SplitPoint({0, 2}), 1);
  EXPECT_EQ(SplitPoint({0, 3}), 2);
  EXPECT_EQ(SplitPoint({0, 4}), 2);
  EXPECT_EQ(SplitPoint({0, 5}), 4);
  EXPECT_EQ(SplitPoint({4, 7}), 6);
  EXPECT_EQ(SplitPoint({0, 4096}), 2048);
  EXPECT_EQ(SplitPoint({0, 4095}), 2048);
}

TEST(Tree, NodesAndFamiliesAreThoseOfTheDefinition) {
  for (int32_t lanes = 1; lanes <= 40; ++lanes) {
    const SlowTree slow(lanes);
    for (int32_t lo = -1; lo <= lanes; ++lo)
      for (int32_t hi = lo - 1; hi <= lanes + 1; ++hi) {
        const TreeNode node{lo, hi};
        if (slow.nodes.count(node) > 0) continue;
        EXPECT_EQ(FamilyOf(node, lanes), std::nullopt) << lo << "-" << hi << " of " << lanes;
      }
    for (const TreeNode& node : slow.nodes) {
      const std::optional<Family> family = FamilyOf(node, lanes);
      const auto known = slow.families.find(node);
      ASSERT_EQ(family.has_value(), known != slow.families.end());
      if (!family) continue;
      EXPECT_EQ(family->sibling, known->second.sibling);
      EXPECT_EQ(family->parent, known->second.parent);
    }
  }
}

TEST(Tree, OneLaneIsTheRootAndHasNoFamily) {
  EXPECT_EQ(FamilyOf({0, 0}, 1), std::nullopt);
  EXPECT_EQ(FamilyOf({0, 1}, 1), std::nullopt);
}

// ---- subtrees

TEST(Subtrees, AreTheFewestThatCoverExactlyTheLanesHeld) {
  std::mt19937_64 random(20240917);
  for (int32_t lanes = 1; lanes <= 33; ++lanes)
    for (int trial = 0; trial < 60; ++trial) {
      std::set<int32_t> held;
      const uint64_t one_in = 1 + random() % 4;
      for (int32_t l = 0; l < lanes; ++l)
        if ((random() % 8 < 2 * one_in)) held.insert(l);
      EXPECT_EQ(Subtrees(Lanes(held), lanes), SlowSubtrees(held, lanes))
          << lanes << " lanes, trial " << trial;
    }
}

TEST(Subtrees, OfNothingAndOfEverything) {
  EXPECT_THAT(Subtrees({}, 5), IsEmpty());
  EXPECT_THAT(Subtrees(Lanes({0, 1, 2, 3, 4}), 5), ElementsAre(TreeNode{0, 5}));
  EXPECT_THAT(Subtrees(Lanes({0}), 1), ElementsAre(TreeNode{0, 1}));
}

// ---- balance

TEST(BalancedLanes, AreContiguousAndEvenForEveryNumberOfHolders) {
  for (int32_t lanes = 1; lanes <= 33; ++lanes)
    for (int32_t holders = 1; holders <= lanes + 3; ++holders)
      ExpectBalanced(BalancedLanes(lanes, holders), lanes, holders);
}

TEST(BalancedLanes, AreCutWhereTheFewestSubtreesResult) {
  for (int32_t lanes = 1; lanes <= 14; ++lanes)
    for (int32_t holders = 1; holders <= lanes + 1; ++holders)
      EXPECT_EQ(SubtreesInAll(BalancedLanes(lanes, holders)), FewestSubtrees(lanes, holders))
          << lanes << " lanes on " << holders;
}

TEST(BalancedLanes, KnownCountsOfSubtrees) {
  EXPECT_EQ(SubtreesInAll(BalancedLanes(8, 3)), 5);
  EXPECT_EQ(SubtreesInAll(BalancedLanes(64, 5)), 17);
  EXPECT_EQ(SubtreesInAll(BalancedLanes(64, 8)), 8);
  EXPECT_EQ(SubtreesInAll(BalancedLanes(64, 1)), 1);
}

TEST(BalancedLanes, MoreHoldersThanLanes) {
  EXPECT_THAT(BalancedLanes(1, 4), ElementsAre(0));
  EXPECT_THAT(BalancedLanes(3, 5), ElementsAre(0, 1, 2));
}

TEST(BalancedLanes, TheLargestJobsAreQuick) {
  ExpectBalanced(BalancedLanes(4096, 7), 4096, 7);
  ExpectBalanced(BalancedLanes(4096, 1500), 4096, 1500);
}

TEST(LanesOf, AreAscendingAndMayBeEmpty) {
  const std::vector<int32_t> holder_of = {2, 0, 2, 1, 2};
  EXPECT_EQ(LanesOf(holder_of, 2), Lanes({0, 2, 4}));
  EXPECT_EQ(LanesOf(holder_of, 1), Lanes({3}));
  EXPECT_THAT(LanesOf(holder_of, 7), IsEmpty());
}

}  // namespace
}  // namespace muster
