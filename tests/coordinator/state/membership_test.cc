#include "coordinator/state/membership.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr Duration kLease = seconds(2);
const Time kStart = Time{} + seconds(100);
const MemberId kA{"worker-0", {1, 1}}, kB{"worker-1", {1, 2}}, kNewA{"worker-0", {2, 1}};

Join JoinOf(const MemberId& id, Role role = Role::kWorker) {
  Join join;
  join.id = id;
  join.role = role;
  return join;
}

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    EXPECT_TRUE(members_.Admit(JoinOf(kA), kStart));
    EXPECT_TRUE(members_.Admit(JoinOf(kB, Role::kServer), kStart));
  }
  Membership members_{kLease, {{9, 9}}};
};

TEST_F(MembershipTest, CountsByRoleAndKnowsWhoIsLive) {
  EXPECT_EQ(members_.Count(Role::kWorker), 1u);
  EXPECT_EQ(members_.Count(Role::kServer), 1u);
  EXPECT_TRUE(members_.AllLive({kA, kB}));
  EXPECT_FALSE(members_.AllLive({kA, kNewA}));
  EXPECT_THAT(members_.OthersOfName(kNewA), ElementsAre(kA));
  EXPECT_THAT(members_.OthersOfName(kA), IsEmpty());
  EXPECT_TRUE(members_.WasEvicted({9, 9})) << "an earlier start evicted it";
}

TEST_F(MembershipTest, OnlyComingAndGoingChangesTheRevision) {
  const int64_t before = members_.revision();
  EXPECT_FALSE(members_.Admit(JoinOf(kA), kStart)) << "a new session of the same";
  members_.Heard(kA, kStart + seconds(1));
  members_.Note(kA, Alive{Step(7), "lane 1 of 2"});
  members_.Down(kA, kStart + seconds(1));
  EXPECT_EQ(members_.revision(), before);
  EXPECT_EQ(members_.live().at(kA).step, Step(7));
  members_.Evict(kA);
  EXPECT_NE(members_.revision(), before);
}

TEST_F(MembershipTest, ALeaseEndsAfterSilenceAndNotBefore) {
  EXPECT_THAT(members_.Lost(kStart + kLease), IsEmpty());
  members_.Heard(kB, kStart + seconds(1));
  EXPECT_THAT(members_.Lost(kStart + kLease + std::chrono::milliseconds(500)),
              ElementsAre(Pair(kA, "silent for longer than its lease")));
  members_.RenewLeases(kStart + seconds(50));
  EXPECT_THAT(members_.Lost(kStart + seconds(50)), IsEmpty());
}

TEST_F(MembershipTest, ABrokenSessionBeginsTheLeaseAndAnExitEndsIt) {
  members_.Down(kA, kStart + seconds(1));
  members_.Heard(kB, kStart + seconds(1));
  EXPECT_THAT(members_.Lost(kStart + seconds(1) + kLease), IsEmpty());
  EXPECT_TRUE(members_.Exited(kA.name, kA.incarnation, kStart + seconds(1)));
  EXPECT_THAT(members_.Lost(kStart + seconds(1)), ElementsAre(Pair(kA, "its process ended")));
}

TEST_F(MembershipTest, AnExitOfAnEarlierLifeSaysNothing) {
  EXPECT_FALSE(members_.Exited(kA.name, {5, 5}, kStart));
  EXPECT_FALSE(members_.Exited("worker-7", {}, kStart));
  EXPECT_THAT(members_.Lost(kStart), IsEmpty());
}

// The agent does not know which life it was; the session may break a moment later.
TEST_F(MembershipTest, AnExitWithoutAnIncarnationCountsWhenTheSessionBreaksSoon) {
  EXPECT_TRUE(members_.Exited(kA.name, {}, kStart));
  EXPECT_THAT(members_.Lost(kStart), IsEmpty()) << "it may be a later process";
  members_.Down(kA, kStart + seconds(1));
  EXPECT_THAT(members_.Lost(kStart + seconds(1)), ElementsAre(Pair(kA, "its process ended")));
}

TEST_F(MembershipTest, SuchAnExitIsForgottenAfterALease) {
  EXPECT_TRUE(members_.Exited(kA.name, {}, kStart));
  members_.Down(kA, kStart + kLease);
  EXPECT_THAT(members_.Lost(kStart + kLease), IsEmpty());
}

TEST_F(MembershipTest, WhoIsEvictedStaysSo) {
  EXPECT_EQ(members_.Evict(kA), std::optional(true));
  EXPECT_EQ(members_.Evict(kA), std::nullopt);
  EXPECT_TRUE(members_.WasEvicted(kA.incarnation));
  EXPECT_FALSE(members_.Heard(kA, kStart));
  EXPECT_FALSE(members_.WasEvicted(kNewA.incarnation));
  members_.Ban({3, 3});
  EXPECT_TRUE(members_.WasEvicted({3, 3}));
}

TEST_F(MembershipTest, TellsTheHighestSealedView) {
  Join join = JoinOf(kNewA);
  join.sealed = ViewNumber(5);
  members_.Admit(join, kStart);
  EXPECT_EQ(members_.HighestSealed(), ViewNumber(5));
}

}  // namespace
}  // namespace muster::coordinator
