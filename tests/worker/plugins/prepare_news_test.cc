#include "worker/plugins/prepare_news.h"

#include "gtest/gtest.h"

namespace muster::worker {
namespace {

class PrepareNewsTest : public ::testing::Test {
 protected:
  PrepareNews::News In(double share, const std::string& what, bool is_ours = true) {
    return news_.In({.share = share, .what = what, .is_ours = is_ours}, now_);
  }

  PrepareNews news_;
  PrepareNews::Time now_{};
};

// A terabyte has a million pieces, and the thread that is told of them has other work.
TEST_F(PrepareNewsTest, TheCoordinatorIsNotToldOfEachPieceThatIsRead) {
  constexpr int kPieces = 10'000;
  int for_coordinator = 0, for_people = 0;
  for (int piece = 0; piece < kPieces; ++piece) {
    const PrepareNews::News news = In(static_cast<double>(piece) / kPieces, "reads the data");
    if (news.for_coordinator) ++for_coordinator;
    if (news.for_people) ++for_people;
  }
  EXPECT_EQ(for_coordinator, 100) << "one for each percent";
  EXPECT_EQ(for_people, 1) << "all in one moment";
}

// It may be the last that is said for hours.
TEST_F(PrepareNewsTest, TheCoordinatorHearsWhatPeopleDoNotHearYet) {
  EXPECT_TRUE(In(0, "begins").for_people);
  const PrepareNews::News half = In(0.5, "half of it");
  EXPECT_FALSE(half.for_people);
  EXPECT_EQ(half.for_coordinator, (HowFar{.percent = 50, .what = "half of it"}));
  now_ += PrepareNews::kBetweenWords;
  const PrepareNews::News later = In(0.5, "half of it");
  EXPECT_TRUE(later.for_people);
  EXPECT_FALSE(later.for_coordinator);
}

TEST_F(PrepareNewsTest, WhoseWorkItIsAndTheFirstThatIsSaidOfItDoNotWait) {
  EXPECT_TRUE(In(0, "").for_people);
  EXPECT_TRUE(In(0, "begins").for_people);
  EXPECT_TRUE(In(0, "begins", /*is_ours=*/false).for_people);
  EXPECT_FALSE(In(0.1, "goes on", /*is_ours=*/false).for_people);
}

TEST_F(PrepareNewsTest, WhatComesBehindTheEndIsNewsThoughItIsTheSame) {
  EXPECT_TRUE(In(0, "begins").for_coordinator);
  EXPECT_FALSE(In(0, "begins").for_coordinator);
  news_.Over();
  EXPECT_TRUE(In(0, "begins").for_coordinator);
}

}  // namespace
}  // namespace muster::worker
