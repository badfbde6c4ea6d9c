#include "lib/domain/buckets.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

Layout LayoutOf(int64_t parameters, int64_t buffers) {
  std::vector<TensorSpec> tensors = {{"w", {parameters}, TensorKind::kParameter}};
  if (buffers > 0) tensors.push_back({"b", {buffers}, TensorKind::kBuffer});
  return Layout::Make(tensors, 64).value();  // 16 elements a chunk
}

TEST(Buckets, EveryChunkOnceInOrderTheFirstOneSmaller) {
  const auto buckets = Buckets(LayoutOf(16 * 9, 16), 64, 256);
  std::vector<size_t> sizes;
  int32_t next = 0;
  for (const auto& bucket : buckets) {
    sizes.push_back(bucket.size());
    for (ChunkId c : bucket) EXPECT_EQ(c, ChunkId(next++));
  }
  EXPECT_EQ(next, 10);
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 4, 4, 1}));
}

TEST(Buckets, OneIsEnoughForASmallModelAndAChunkIsNeverCut) {
  EXPECT_EQ(Buckets(LayoutOf(5, 0), 1 << 20, 25 << 20).size(), 1u);
  EXPECT_EQ(Buckets(LayoutOf(16 * 3, 0), 1, 1).size(), 3u);
}

// They are told in the midst of lanes.
TEST(Buckets, PhasesAreInNone) {
  const Layout layout = Layout::Make({{"w", {40}},
                                      {"sync/norm/forward", {20}, TensorKind::kPhase},
                                      {"sum", {16}, TensorKind::kSum}},
                                     64)
                            .value();
  ASSERT_EQ(layout.chunk_count(), 6);
  const auto buckets = Buckets(layout, 1 << 20, 25 << 20);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].size(), 4u);
}

}  // namespace
}  // namespace muster
