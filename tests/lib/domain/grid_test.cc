#include "lib/domain/grid.h"

#include "gtest/gtest.h"
#include "lib/domain/lanes.h"
#include "lib/transport/transport.h"

namespace muster {
namespace {

TEST(ChunkBytes, IsTheSpecificationsUpToThirtyTwoLanes) {
  TrainingSpec training;
  for (int32_t lanes : {1, 2, 31, 32}) {
    training.lanes = lanes;
    EXPECT_EQ(ChunkBytes(training), training.chunk_bytes) << lanes;
  }
}

TEST(ChunkBytes, LetsTheMostSubtreesOfAChunkFitIntoAFrame) {
  TrainingSpec training;
  for (int32_t lanes : {1, 2, 3, 32, 33, 63, 64, 65, 1000, 4095, 4096}) {
    training.lanes = lanes;
    std::vector<LaneId> every_other;
    for (int32_t l = 0; l < lanes; l += 2) every_other.emplace_back(l);
    const auto subtrees = static_cast<int64_t>(Subtrees(every_other, lanes).size());
    EXPECT_LE(subtrees * ChunkBytes(training), static_cast<int64_t>(kMaxPayloadBytes)) << lanes;
    EXPECT_EQ(ChunkBytes(training) % 64, 0) << lanes;
    EXPECT_GE(ChunkBytes(training), 64) << lanes;
  }
}

}  // namespace
}  // namespace muster
