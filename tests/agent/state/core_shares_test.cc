#include "agent/state/core_shares.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ProcessKey Worker(int number) { return {"job", "worker-" + std::to_string(number)}; }

TEST(CoreShares, SlotsHaveThemEvenly) {
  CoreShares shares({2, 3, 5, 7, 8}, 2);
  EXPECT_THAT(shares.Take(Worker(4)), ElementsAre(2, 3));
  EXPECT_THAT(shares.Take(Worker(1)), ElementsAre(5, 7, 8));
  EXPECT_THAT(shares.Take(Worker(4)), ElementsAre(2, 3)) << "it is started again";
  EXPECT_THAT(shares.Take(Worker(9)), IsEmpty()) << "no slot is free";
  shares.Free(Worker(4));
  EXPECT_THAT(shares.Take(Worker(9)), ElementsAre(2, 3)) << "that slot is free again";
}

TEST(CoreShares, NobodyIsBoundWithFewerCoresThanSlots) {
  CoreShares few({0}, 2);
  EXPECT_THAT(few.Take(Worker(0)), IsEmpty());
  CoreShares none({}, 1);
  EXPECT_THAT(none.Take(Worker(0)), IsEmpty());
}

}  // namespace
}  // namespace muster::agent
