#include "lib/domain/grid.h"

#include "gtest/gtest.h"
#include "lib/domain/lanes.h"
#include "lib/transport/transport.h"

namespace muster {
namespace {

TEST(ChunkBytes, IsTheLawsUpToThirtyTwoLanes) {
  Law law;
  for (int32_t lanes : {1, 2, 31, 32}) {
    law.lanes = lanes;
    EXPECT_EQ(ChunkBytes(law), law.chunk_bytes) << lanes;
  }
}

TEST(ChunkBytes, LetsTheMostSubtreesOfAChunkFitIntoAFrame) {
  Law law;
  for (int32_t lanes : {1, 2, 3, 32, 33, 63, 64, 65, 1000, 4095, 4096}) {
    law.lanes = lanes;
    std::vector<LaneId> every_other;
    for (int32_t l = 0; l < lanes; l += 2) every_other.emplace_back(l);
    const auto subtrees = static_cast<int64_t>(Subtrees(every_other, lanes).size());
    EXPECT_LE(subtrees * ChunkBytes(law), static_cast<int64_t>(kMaxPayloadBytes)) << lanes;
    EXPECT_EQ(ChunkBytes(law) % 64, 0) << lanes;
    EXPECT_GE(ChunkBytes(law), 64) << lanes;
  }
}

}  // namespace
}  // namespace muster
