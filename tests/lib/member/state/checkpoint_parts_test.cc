#include "lib/member/state/checkpoint_parts.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

// A member whose disk takes so much of the time between two rounds for a part.
class SlowDisk {
 public:
  SlowDisk(double rounds_a_part, int parts_at_first) : rounds_a_part_(rounds_a_part) {
    for (int i = 0; i < parts_at_first; ++i) Take();  // asked for by hand, out of the row
  }
  bool Round(int64_t round) {
    while (!ends_.empty() && ends_.front() <= static_cast<double>(round)) {
      parts_.End();
      ends_.erase(ends_.begin());
    }
    now_ = static_cast<double>(round);
    return parts_.Begin(round) && Write();
  }

 private:
  void Take() {
    if (parts_.Begin(std::nullopt)) Write();
  }
  bool Write() {
    ends_.push_back(std::max(now_, ends_.empty() ? 0.0 : ends_.back()) + rounds_a_part_);
    return true;
  }

  const double rounds_a_part_;
  CheckpointParts parts_;
  std::vector<double> ends_;
  double now_ = 0;
};

int64_t TakenByAll(std::vector<SlowDisk> disks, int64_t first, int64_t last) {
  int64_t taken = 0;
  for (int64_t round = first; round <= last; ++round) {
    bool by_all = true;
    for (SlowDisk& disk : disks) by_all = disk.Round(round) && by_all;
    taken += by_all;
  }
  return taken;
}

TEST(CheckpointParts, ADiskThatKeepsUpTakesEveryRound) {
  EXPECT_EQ(TakenByAll({{0.9, 0}, {0.2, 0}}, 1, 100), 100);
}

// One begins with a part that nobody else has, so that each has room when the other has none.
TEST(CheckpointParts, SlowDisksTakeTheSameRoundsWhereverTheyBegan) {
  struct Case {
    double first, second;
    int parts_at_first;
  };
  for (const Case& c : {Case{2, 2, 1}, Case{2, 2, 2}, Case{3, 2, 1}, Case{4, 4, 1}, Case{7, 5, 2},
                        Case{2.5, 2, 1}, Case{1.5, 3, 1}, Case{20, 1.1, 1}}) {
    const double slower = std::max(c.first, c.second);
    const int64_t taken = TakenByAll({{c.first, 0}, {c.second, c.parts_at_first}}, 1, 1000);
    EXPECT_GE(static_cast<double>(taken), 1000 / slower / 4) << c.first << " and " << c.second;
  }
}

TEST(CheckpointParts, ADiskThatIsFastAgainTakesEveryRoundAgain) {
  CheckpointParts parts;
  for (int64_t round = 1; round <= 3; ++round) parts.Begin(round);
  EXPECT_EQ(parts.stride(), 2) << "there was no room for the third";
  for (int64_t round = 4; round < 100; ++round) {
    parts.End();
    parts.End();
    parts.Begin(round);
  }
  EXPECT_EQ(parts.stride(), 1);
}

// Standing still once says nothing of how fast the disk is when it works.
TEST(CheckpointParts, ADiskThatStoodStillOnceTakesEveryRoundSoonAgain) {
  CheckpointParts parts;
  for (int64_t round = 1; round <= 100; ++round) parts.Begin(round);
  EXPECT_EQ(parts.stride(), 64);
  int taken = 0;
  int64_t round = 101;
  for (; parts.stride() > 1 && round < 100000; ++round) {
    parts.End();
    parts.End();
    taken += parts.Begin(round);
  }
  EXPECT_EQ(parts.stride(), 1);
  EXPECT_LE(taken, 40) << "one stall is not forgotten";
  EXPECT_LE(round, 1000);
}

// However many tries failed before.
TEST(CheckpointParts, ADiskThatWasSlowForLongTakesEveryRoundSoonWhenItIsFast) {
  CheckpointParts parts;
  for (int64_t round = 1; round <= 10000; ++round) {
    if (round % 3 == 0) parts.End();
    parts.Begin(round);
  }
  int taken = 0;
  for (int64_t round = 10001; parts.stride() > 1 && round < 100000; ++round) {
    parts.End();
    parts.End();
    taken += parts.Begin(round);
  }
  EXPECT_EQ(parts.stride(), 1);
  EXPECT_LE(taken, 40);
}

// It was asked for at some step, and says nothing of the row.
TEST(CheckpointParts, ARoundOutOfTheRowOnlyNeedsRoom) {
  CheckpointParts parts;
  EXPECT_TRUE(parts.Begin(1));
  EXPECT_TRUE(parts.Begin(std::nullopt));
  EXPECT_FALSE(parts.Begin(std::nullopt));
  EXPECT_EQ(parts.stride(), 1);
  EXPECT_FALSE(parts.Begin(2));
  parts.End();
  EXPECT_FALSE(parts.Begin(3)) << "half of the rounds are taken now";
  EXPECT_TRUE(parts.Begin(std::nullopt));
}

}  // namespace
}  // namespace muster
