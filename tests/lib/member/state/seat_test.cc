// A view as one of its members sees it.
#include "lib/member/state/seat.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::ElementsAre;

TEST(Seat, KnowsItsChunksAndItsLanesOfEachStep) {
  Seat seat = PartSeat({0, 1, 0}, {0, 1});
  seat.view.first_step = Step(4);
  seat.view.first_lanes.holder_of = {0, 0};
  EXPECT_THAT(seat.OwnChunks(), ElementsAre(ChunkId(0), ChunkId(2)));
  EXPECT_TRUE(seat.Owns(ChunkId(2)));
  EXPECT_FALSE(seat.Owns(ChunkId(1)));
  EXPECT_THAT(seat.LanesAt(Step(4)), ElementsAre(LaneId(0), LaneId(1)));
  EXPECT_THAT(seat.LanesAt(Step(5)), ElementsAre(LaneId(0)));
}

TEST(Seat, OnlyOfTheFirstStepAChunkMayBeDone) {
  Seat seat = PartSeat({0, 1}, {0, 1});
  seat.view.first_step = Step(4);
  seat.view.first_done = Bits({0, 1});
  EXPECT_FALSE(seat.IsDone(Step(4), ChunkId(0)));
  EXPECT_TRUE(seat.IsDone(Step(4), ChunkId(1)));
  EXPECT_FALSE(seat.IsDone(Step(5), ChunkId(1)));
}

TEST(Seat, ASpareHasNoPart) {
  Seat seat = PartSeat({0, 0}, {0, 0});
  EXPECT_TRUE(seat.HasPart(0));
  EXPECT_FALSE(seat.HasPart(1));
  EXPECT_FALSE(seat.HasPart(-1)) << "it is not in the view";
  seat.view.first_lanes.holder_of = {0, 1};
  EXPECT_TRUE(seat.HasPart(1)) << "a lane of the first step is a part";
}

TEST(Seat, AServerWithoutAChunkHasNoPart) {
  Seat seat = PartSeat({0, 1}, {0, 0});
  seat.view.members[1].role = Role::kServer;
  EXPECT_TRUE(seat.HasPart(1));
  seat.view.owner_of = {0, 0};
  EXPECT_FALSE(seat.HasPart(1));
}

}  // namespace
}  // namespace muster
