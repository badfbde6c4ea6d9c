#include "coordinator/state/lane_account.h"

#include <gtest/gtest.h>

#include <limits>

namespace muster::coordinator {
namespace {

const MemberId kA{"worker-0", {1, 1}};
const MemberId kB{"worker-1", {2, 2}};
const MemberId kC{"server-0", {3, 3}};

// Both hold two of four lanes.
View ViewAt(int64_t lineage, int64_t step) {
  View view;
  view.lineage = LineageNumber(lineage);
  view.first_step = Step(step);
  for (const MemberId& id : {kA, kB})
    view.members.push_back({id, Role::kWorker, "", "", Rank(), 0});
  view.lanes.holder_of = view.first_lanes.holder_of = {0, 0, 1, 1};
  return view;
}

LaneCount Ran(const MemberId& member, int64_t total, int64_t lineage, int64_t step,
              int64_t in_step) {
  return {member.incarnation, total, LineageNumber(lineage), Step(step), in_step};
}

// What B had run when it was lost, and what of it is run again when the next view goes on at step 5
// and gives away both its lanes.
struct Case {
  const char* what;
  LaneCount ran;
  int64_t again;
};

TEST(LaneAccount, CountsWhatALostMemberHadRun) {
  for (const Case& c :
       {Case{"nothing of the open step", Ran(kB, 8, 1, 4, 2), 0},
        Case{"one lane", Ran(kB, 11, 1, 5, 1), 1}, Case{"both", Ran(kB, 12, 1, 5, 2), 2},
        Case{"a step ahead", Ran(kB, 13, 1, 6, 1), 3},
        Case{"only lanes of a lineage before", Ran(kB, 13, 0, 6, 1), 0}}) {
    for (bool told_first : {false, true}) {
      LaneAccount account;
      if (told_first) account.Told(c.ran);
      account.Lose(kB.incarnation, Role::kWorker);
      account.GoOn(ViewAt(1, 0), ViewAt(1, 5), {LaneId(2), LaneId(3)});
      EXPECT_EQ(account.settled(), told_first) << c.what;
      if (!told_first) account.Told(c.ran);
      account.Told(c.ran);  // agents repeat themselves
      EXPECT_TRUE(account.settled()) << c.what;
      EXPECT_EQ(account.recomputed(), c.again) << c.what;
    }
  }
}

TEST(LaneAccount, LanesThatWereKeptAreNotRunAgain) {
  LaneAccount account;
  account.Lose(kB.incarnation, Role::kWorker);
  account.Told(Ran(kB, 12, 1, 5, 2));
  account.GoOn(ViewAt(1, 0), ViewAt(1, 5), {});
  EXPECT_EQ(account.recomputed(), 0);
}

// Nobody tells of it, so it would be waited for, and kept, for ever.
TEST(LaneAccount, AServerHasRunNoLanes) {
  LaneAccount account;
  account.Lose(kC.incarnation, Role::kServer);
  EXPECT_EQ(account.Gone().size(), 1u) << "it is not to come back before the next view";
  account.GoOn(ViewAt(1, 0), ViewAt(1, 5), {});
  EXPECT_TRUE(account.settled());
  EXPECT_TRUE(account.value().departed.empty());
  EXPECT_EQ(account.recomputed(), 0);
}

// A had run 2 lanes in each of 7 steps and one of the next, B all of its 7. Three steps count.
TEST(LaneAccount, AfterARewindTotalsTell) {
  LaneAccount account;
  account.Lose(kB.incarnation, Role::kWorker);
  account.Rewind(ViewAt(2, 3), 4, {{kA, 15}});
  EXPECT_EQ(account.recomputed(), 3) << "no more than is certain";
  account.Told(Ran(kB, 14, 1, 6, 2));
  EXPECT_EQ(account.recomputed(), 15 + 14 - 3 * 4);
}

// Twenty steps of four lanes were run when it was stopped; then a checkpoint turns out to be
// damaged.
TEST(LaneAccount, AResumptionIsARewindToItsCheckpoint) {
  LaneAccount account;
  for (const MemberId& id : {kA, kB}) account.Lose(id.incarnation, Role::kWorker);
  account.Rewind(ViewAt(2, 20), 4, {});
  for (const MemberId& id : {kA, kB}) account.Told(Ran(id, 40, 1, 19, 2));
  EXPECT_EQ(account.recomputed(), 0);
  account.Rewind(ViewAt(3, 16), 4, {});
  EXPECT_EQ(account.recomputed(), 4 * 4);
}

// A job that loses workers all day long does not remember each, and a rewind still counts them.
TEST(LaneAccount, ForgetsWhoIsSettledButNotWhatTheyRan) {
  LaneAccount account;
  for (uint64_t life = 1; life <= 50; ++life) {
    const MemberId lost{"worker-1", {life, 7}};
    View before = ViewAt(1, 4), after = ViewAt(1, 5);
    before.members[1].id = lost;
    after.members.pop_back();
    account.Told(Ran(lost, 10, 1, 5, 1));
    account.Lose(lost.incarnation, Role::kWorker);
    account.GoOn(before, after, {LaneId(2), LaneId(3)});
    account.Told(Ran(lost, 10, 1, 5, 1));  // its agent has a new session
  }
  EXPECT_LE(account.value().departed.size(), 1u);
  EXPECT_TRUE(account.settled());
  EXPECT_EQ(account.recomputed(), 50) << "one lane each";
  View after = ViewAt(2, 3);
  after.members.pop_back();
  account.Rewind(after, 4, {{kA, 100}});
  EXPECT_EQ(account.recomputed(), 50 * 10 + 100 - 3 * 4);
}

// The largest total that a frame may tell, of more processes than fit into 64 bits.
TEST(LaneAccount, AbsurdTotalsMakeTheLargestNumber) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  constexpr int64_t kTold = int64_t{1} << 62;
  LaneAccount account;
  for (uint64_t life = 1; life <= 3; ++life) {
    const MemberId lost{"worker-1", {life, 7}};
    View before = ViewAt(1, 4), after = ViewAt(1, 5);
    before.members[1].id = lost;
    account.Told(Ran(lost, kTold, 1, 6, kTold));
    account.Lose(lost.incarnation, Role::kWorker);
    account.GoOn(before, after, {LaneId(2), LaneId(3)});
    EXPECT_EQ(account.recomputed(), life == 1 ? kTold + 2 : kLargest) << life;
  }
  EXPECT_EQ(account.value().settled_total, kLargest);
  account.Rewind(ViewAt(2, 3), 4, {{kA, kTold}, {kB, kTold}});
  EXPECT_EQ(account.value().known, kLargest);
  EXPECT_EQ(LaneAccount(account.value()), account);
}

TEST(LaneAccount, IsTheSameAfterTheJournal) {
  LaneAccount account;
  account.Lose(kB.incarnation, Role::kWorker);
  account.GoOn(ViewAt(1, 0), ViewAt(1, 5), {LaneId(2)});
  LaneAccount read(account.value());
  EXPECT_EQ(read, account);
  read.Told(Ran(kB, 12, 1, 5, 2));
  EXPECT_EQ(read.recomputed(), 1);
  EXPECT_EQ(read.Gone().count(kB.incarnation), 1u);
}

}  // namespace
}  // namespace muster::coordinator
