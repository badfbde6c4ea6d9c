#include "lib/member/state/job_asker.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

HowFar At(int32_t percent) { return {.percent = percent, .what = "merge 84 of 200"}; }

class JobAskerTest : public testing::Test {
 protected:
  // What is said so long after the beginning.
  std::optional<AskJob> Later(Duration after) { return asker_.AskAgain(Time() + after); }

  JobAsker asker_{"job", "worker-0"};
};

TEST_F(JobAskerTest, AsksOnceWhereThereIsNothingToSay) {
  const AskJob ask = asker_.Ask(Time());
  EXPECT_EQ(ask.job, "job");
  EXPECT_EQ(ask.name, "worker-0");
  EXPECT_EQ(ask.preparing, std::nullopt);
  asker_.Answered();
  EXPECT_FALSE(Later(100 * kBetweenAsks));
}

TEST_F(JobAskerTest, SaysWhatHasChangedNowAndThen) {
  asker_.Ask(Time());
  asker_.Answered();
  asker_.IsAt(At(1));
  EXPECT_FALSE(Later(kBetweenAsks - milliseconds(1))) << "it can wait";
  asker_.IsAt(At(2));
  const auto again = Later(kBetweenAsks);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->preparing, At(2)) << "the newest";
  asker_.Answered();
  EXPECT_FALSE(Later(3 * kBetweenAsks)) << "it was said";
  asker_.IsAt(At(3));
  EXPECT_TRUE(Later(3 * kBetweenAsks));
  asker_.Answered();
  asker_.IsAt(std::nullopt);
  const auto over = Later(5 * kBetweenAsks);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->preparing, std::nullopt);
}

TEST_F(JobAskerTest, WaitsForAnAnswer) {
  asker_.Ask(Time());
  asker_.IsAt(At(1));
  EXPECT_FALSE(Later(2 * kBetweenAsks));
  asker_.Answered();
  EXPECT_TRUE(Later(2 * kBetweenAsks));
  asker_.IsAt(At(2));
  EXPECT_FALSE(Later(100 * kBetweenAsks)) << "that one is not answered yet";
}

TEST_F(JobAskerTest, BeginsANewSessionWithWhatIsKnown) {
  asker_.Ask(Time());
  asker_.IsAt(At(7));
  EXPECT_EQ(asker_.Ask(Time() + milliseconds(1)).preparing, At(7));
  asker_.Answered();
  EXPECT_FALSE(Later(100 * kBetweenAsks)) << "the session has begun with that";
}

}  // namespace
}  // namespace muster
