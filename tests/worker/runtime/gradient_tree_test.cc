#include "worker/runtime/gradient_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace muster::worker {
namespace {

class GradientTreeTest : public testing::Test {
 protected:
  FlatPtr Leaf(GradientTree& tree, int32_t lane) {
    FlatPtr leaf = tree.NewLeaf();
    std::mt19937 random(static_cast<uint32_t>(lane));
    for (float& v : leaf->all()) v = static_cast<float>(random()) * 0x1p-32f - 0.5f;
    return leaf;
  }
  // The slow twin.
  std::vector<float> TreeSum(GradientTree& tree, TreeNode node) {
    if (node.lanes() == 1) {
      const FlatPtr leaf = Leaf(tree, node.lo);
      return {leaf->all().begin(), leaf->all().end()};
    }
    std::vector<float> sum = TreeSum(tree, {node.lo, SplitPoint(node)});
    const std::vector<float> right = TreeSum(tree, {SplitPoint(node), node.hi});
    const auto parameters = static_cast<size_t>(layout_.parameter_elements());
    for (size_t i = 0; i < parameters; ++i) sum[i] += right[i];  // buffers: the left one's
    return sum;
  }
  void ExpectTwin(GradientTree& tree, const std::map<TreeNode, FlatPtr>& sums) {
    for (const auto& [node, sum] : sums)
      EXPECT_EQ(std::vector<float>(sum->all().begin(), sum->all().end()), TreeSum(tree, node))
          << node.lo << " … " << node.hi;
  }

  const Layout layout_ =
      Layout::Make({{"w", {40}, TensorKind::kParameter}, {"b", {3}, TensorKind::kBuffer}}, 64)
          .value();
  FlatPool pool_{static_cast<size_t>(layout_.elements())};
  CopyCounter copied_{0};
};

TEST_F(GradientTreeTest, AnyLanesInAnyOrderFoldIntoTheTree) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const int32_t lanes = 1 + static_cast<int32_t>(random() % 11);
    std::vector<LaneId> held;
    for (int32_t l = 0; l < lanes; ++l)
      if (random() % 3 != 0) held.emplace_back(l);
    std::shuffle(held.begin(), held.end(), random);
    GradientTree tree(layout_, lanes, pool_, copied_);
    for (LaneId lane : held) {
      tree.Add(lane, Leaf(tree, lane.value()), 2, 0.5);
      if (random() % 4 == 0) tree.Publish();
    }
    std::sort(held.begin(), held.end());
    const std::vector<TreeNode> expected = Subtrees(held, lanes);
    const std::vector<Partial> partials = tree.Partials();
    ASSERT_EQ(partials.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(partials[i].node, expected[i]);
      EXPECT_EQ(partials[i].weight, 2 * expected[i].lanes());
      EXPECT_EQ(partials[i].loss, 0.5 * expected[i].lanes());
    }
    ExpectTwin(tree, tree.Sums());
  }
}

TEST_F(GradientTreeTest, WhatWasPublishedIsNeverWrittenAgain) {
  GradientTree tree(layout_, 4, pool_, copied_);
  tree.Add(LaneId(0), Leaf(tree, 0), 1, 0);
  tree.Add(LaneId(1), Leaf(tree, 1), 1, 0);
  tree.Publish();
  const std::map<TreeNode, FlatPtr> lent = tree.Sums();
  tree.Add(LaneId(2), Leaf(tree, 2), 1, 0);
  tree.Publish();
  tree.Add(LaneId(3), Leaf(tree, 3), 1, 0);
  ExpectTwin(tree, lent);
  ExpectTwin(tree, tree.Sums());
}

TEST_F(GradientTreeTest, AdjacentLanesNeedFewBuffers) {
  GradientTree tree(layout_, 64, pool_, copied_);
  for (int32_t lane = 0; lane < 64; ++lane) {
    FlatPtr leaf = tree.NewLeaf();
    tree.Add(LaneId(lane), std::move(leaf), 1, 0);
    tree.Publish();  // lets go of what was consumed, and forbids to write in place
  }
  EXPECT_LE(pool_.made(), 9) << "log2(64) + 1 nodes, and the places of one chain of additions";
  EXPECT_EQ(tree.Partials().size(), 1u);
}

TEST_F(GradientTreeTest, ChunksFoldedOneByOneGiveTheSame) {
  GradientTree tree(layout_, 3, pool_, copied_);
  tree.Add(LaneId(0), Leaf(tree, 0), 1, 0);
  tree.Add(LaneId(1), Leaf(tree, 1), 1, 0);
  tree.Begin(LaneId(2), Leaf(tree, 2), 5, 1.5);
  ASSERT_EQ(tree.Partials().size(), 1u);
  EXPECT_EQ(tree.Partials()[0].weight, 7);
  for (int32_t c = layout_.chunk_count(); c-- > 0;) tree.FoldChunk(ChunkId(c));
  ExpectTwin(tree, tree.Sums());
}

}  // namespace
}  // namespace muster::worker
