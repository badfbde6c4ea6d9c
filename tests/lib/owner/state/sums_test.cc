#include "lib/owner/state/sums.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ChunkId kChunk(0), kBufferChunk(1);
const std::vector<TensorKind> kKinds = {TensorKind::kParameter, TensorKind::kBuffer};

Partial PartialOf(TreeNode node) {
  // Weight and loss of a subtree: of its lanes, so that a missing or doubled one shows.
  Partial p{node, 0, 0, 0};
  for (int32_t l = node.lo; l < node.hi; ++l) {
    p.weight += 1000 + l;
    p.loss += 0.5 * l;
  }
  return p;
}

ChunkPartials ArrivalOf(const Sums& sums, int32_t sender, ChunkId chunk) {
  ChunkPartials arrival{chunk, {}};
  for (TreeNode node : sums.Expected(sender, kKinds[static_cast<size_t>(chunk.value())]))
    arrival.partials.push_back(PartialOf(node));
  return arrival;
}

// The slow twin: the term of a node, by the definition of the tree.
std::string Term(TreeNode node) {
  if (node.lanes() == 1) return absl::StrCat(node.lo);
  int32_t below = 1;
  while (below * 2 < node.lanes()) below *= 2;
  return absl::StrCat("(", Term({node.lo, node.lo + below}), "+", Term({node.lo + below, node.hi}),
                      ")");
}

// Memory of strings: does what the folds say and nothing else.
class Memory {
 public:
  void Arrive(const ChunkPartials& arrival) {
    for (const Partial& p : arrival.partials) terms_[p.node] = Term(p.node);
  }
  void Fold(const muster::Fold& fold) {
    ASSERT_TRUE(terms_.count(fold.left) && terms_.count(fold.right))
        << "a fold of what is not there";
    const std::string sum = absl::StrCat("(", terms_[fold.left], "+", terms_[fold.right], ")");
    terms_.erase(fold.left);
    terms_.erase(fold.right);
    terms_[fold.into] = sum;
  }
  const std::map<TreeNode, std::string>& terms() const { return terms_; }

 private:
  std::map<TreeNode, std::string> terms_;
};

LaneMap RandomMap(std::mt19937_64& random, int32_t lanes, int32_t holders) {
  LaneMap map;
  for (int32_t l = 0; l < lanes; ++l)
    map.holder_of.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(holders)));
  return map;
}

std::vector<int32_t> Senders(const LaneMap& map) {
  std::vector<int32_t> senders = map.holder_of;
  std::sort(senders.begin(), senders.end());
  senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
  return senders;
}

TEST(Sums, AnyOrderOfArrivalGivesTheCanonicalTree) {
  std::mt19937_64 random(3);
  for (int32_t lanes = 1; lanes <= 33; ++lanes)
    for (int trial = 0; trial < 10; ++trial) {
      const LaneMap map = RandomMap(random, lanes, 1 + static_cast<int32_t>(random() % 6));
      Sums sums(lanes, map, kKinds, {});
      std::vector<int32_t> senders = Senders(map);
      std::shuffle(senders.begin(), senders.end(), random);
      Memory memory;
      for (size_t i = 0; i < senders.size(); ++i) {
        const ChunkPartials arrival = ArrivalOf(sums, senders[i], kChunk);
        const absl::StatusOr<Additions> taken = sums.Add(senders[i], arrival);
        ASSERT_TRUE(taken.ok()) << taken.status();
        memory.Arrive(arrival);
        for (const Fold& fold : taken->folds) memory.Fold(fold);
        ASSERT_EQ(taken->total.has_value(), i + 1 == senders.size());
        if (taken->total) {
          EXPECT_EQ(*taken->total, PartialOf({0, lanes}));
        }
      }
      ASSERT_EQ(memory.terms().size(), 1u);
      EXPECT_EQ(memory.terms().begin()->second, Term({0, lanes}))
          << lanes << " lanes, trial " << trial;
    }
}

TEST(Sums, OneLaneNeedsNoAddition) {
  Sums sums(1, {{0}}, kKinds, {});
  const auto taken = sums.Add(0, {kChunk, {PartialOf({0, 1})}});
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(taken->folds, IsEmpty());
  EXPECT_EQ(taken->total, PartialOf({0, 1}));
}

TEST(Sums, EachChunkIsSummedByItself) {
  const std::vector<TensorKind> kinds(2, TensorKind::kParameter);
  Sums sums(2, {{0, 1}}, kinds, {});
  ASSERT_TRUE(sums.Add(0, {ChunkId(0), {PartialOf({0, 1})}}).ok());
  EXPECT_TRUE(sums.HasFrom(0, ChunkId(0)));
  EXPECT_FALSE(sums.HasFrom(0, ChunkId(1)));
  EXPECT_FALSE(sums.Add(1, {ChunkId(1), {PartialOf({1, 2})}})->total.has_value());
  EXPECT_TRUE(sums.Add(1, {ChunkId(0), {PartialOf({1, 2})}})->total.has_value());
}

TEST(Sums, ARepetitionIsRefusedAsSuchAlsoWhenTheChunkIsComplete) {
  Sums sums(2, {{0, 1}}, kKinds, {});
  EXPECT_TRUE(sums.Check(0, {kChunk, {PartialOf({0, 1})}}).ok());
  ASSERT_TRUE(sums.Add(0, {kChunk, {PartialOf({0, 1})}}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(sums.Check(0, {kChunk, {PartialOf({0, 1})}})));
  EXPECT_TRUE(absl::IsAlreadyExists(sums.Add(0, {kChunk, {PartialOf({0, 1})}}).status()));
  ASSERT_TRUE(sums.Add(1, {kChunk, {PartialOf({1, 2})}})->total.has_value());
  EXPECT_TRUE(absl::IsAlreadyExists(sums.Add(1, {kChunk, {PartialOf({1, 2})}}).status()));
}

TEST(Sums, WhatTheSenderDoesNotHoldIsRefusedAndChangesNothing) {
  const LaneMap map{{0, 0, 1, 0}};  // 0 holds {0,1} and {3}; 1 holds {2}
  Sums sums(4, map, kKinds, {});
  EXPECT_THAT(sums.Expected(0, TensorKind::kParameter),
              ElementsAre(TreeNode{0, 2}, TreeNode{3, 4}));
  const std::vector<std::vector<TreeNode>> wrong = {{},
                                                    {{0, 2}},
                                                    {{3, 4}, {0, 2}},
                                                    {{0, 1}, {1, 2}, {3, 4}},
                                                    {{0, 2}, {2, 3}},
                                                    {{0, 4}},
                                                    {{0, 2}, {3, 4}, {3, 4}}};
  for (const std::vector<TreeNode>& nodes : wrong) {
    ChunkPartials arrival{kChunk, {}};
    for (TreeNode node : nodes) arrival.partials.push_back(PartialOf(node));
    const absl::Status status = sums.Add(0, arrival).status();
    EXPECT_EQ(status, absl::InvalidArgumentError("chunk 0: not the subtrees that member 0 holds"));
  }
  EXPECT_EQ(sums.Add(5, {kChunk, {}}).status(),
            absl::InvalidArgumentError("chunk 0: not the subtrees that member 5 holds"));
  EXPECT_FALSE(sums.HasFrom(0, kChunk));
  EXPECT_TRUE(sums.Add(0, ArrivalOf(sums, 0, kChunk)).ok());
}

TEST(Sums, ABufferComesFromTheHolderOfLaneZeroAlone) {
  Sums sums(4, {{1, 0, 0, 1}}, kKinds, {});
  EXPECT_THAT(sums.Expected(1, TensorKind::kBuffer), ElementsAre(TreeNode{0, 1}));
  EXPECT_THAT(sums.Expected(0, TensorKind::kBuffer), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(sums.Add(0, {kBufferChunk, {PartialOf({1, 2})}}).status()));
  const auto taken = sums.Add(1, {kBufferChunk, {PartialOf({0, 1})}});
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(taken->folds, IsEmpty());
  EXPECT_EQ(taken->total, PartialOf({0, 1}));
}

TEST(Sums, FreeOrderAddsAsItComesAndCountsLanes) {
  std::mt19937_64 random(4);
  for (int32_t lanes = 1; lanes <= 17; ++lanes) {
    const LaneMap map = RandomMap(random, lanes, 4);
    Sums sums(lanes, map, kKinds, SumOrder::kFree);
    std::vector<int32_t> senders = Senders(map);
    std::shuffle(senders.begin(), senders.end(), random);
    size_t additions = 0, parts = 0;
    for (size_t i = 0; i < senders.size(); ++i) {
      const ChunkPartials arrival = ArrivalOf(sums, senders[i], kChunk);
      const auto taken = sums.Add(senders[i], arrival);
      ASSERT_TRUE(taken.ok());
      additions += taken->folds.size();
      parts += arrival.partials.size();
      ASSERT_EQ(taken->total.has_value(), i + 1 == senders.size())
          << "complete when all lanes are in";
      if (!taken->total) continue;
      EXPECT_EQ(taken->total->weight, PartialOf({0, lanes}).weight);
      EXPECT_DOUBLE_EQ(taken->total->loss, PartialOf({0, lanes}).loss);
    }
    EXPECT_EQ(additions, parts - 1);
  }
}

}  // namespace
}  // namespace muster
