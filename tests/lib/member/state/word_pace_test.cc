#include "lib/member/state/word_pace.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

// A member that wakes when it is to; times in milliseconds.
class WordPaceTest : public testing::Test {
 protected:
  static constexpr Time kStart{std::chrono::hours(1)};
  // Its words until then.
  std::vector<int64_t> WordsUntil(int64_t ms, bool names, bool has_news = false) {
    std::vector<int64_t> words;
    while (true) {
      const Time next = std::max(pace_.Next(has_news), now_);
      if (next > kStart + milliseconds(ms)) break;
      now_ = next;
      if (!pace_.Wake(now_, has_news)) continue;
      words.push_back((now_ - kStart) / milliseconds(1));
      pace_.Spoke(now_, names);
      has_news = false;
    }
    now_ = kStart + milliseconds(ms);
    return words;
  }
  bool MayName(int64_t noted_ms_ago = 0) {
    return pace_.MayName(now_, now_ - milliseconds(noted_ms_ago));
  }

  Time now_ = kStart;
  WordPace pace_{milliseconds(500), kStart};
};

TEST_F(WordPaceTest, AMemberSpeaksTwiceAsOftenWhileItNamesOthers) {
  EXPECT_THAT(WordsUntil(1600, false), ElementsAre(500, 1000, 1500));
  EXPECT_THAT(WordsUntil(2600, true), ElementsAre(2000, 2250, 2500));
  EXPECT_THAT(WordsUntil(3600, false), ElementsAre(2750, 3000, 3500));
}

TEST_F(WordPaceTest, NewsAreSaidAtOnceButNotMoreThanFourTimesASecond) {
  EXPECT_THAT(WordsUntil(100, true, /*has_news=*/true), ElementsAre(0));
  EXPECT_THAT(WordsUntil(300, true, /*has_news=*/true), ElementsAre(250));
}

TEST_F(WordPaceTest, OfWhomNobodyHasLookedNothingIsSaid) {
  EXPECT_TRUE(MayName(500));
  EXPECT_FALSE(MayName(501));
}

// Its sessions may have broken because of that, and nobody has had the time to make them again.
TEST_F(WordPaceTest, WhoStoodStillNamesNobodyForAWhile) {
  WordsUntil(1000, false);
  EXPECT_TRUE(MayName());
  now_ += milliseconds(1200);  // since it woke last, longer than a second
  pace_.Wake(now_, false);
  EXPECT_FALSE(MayName());
  WordsUntil(2200 + 1999, true);
  EXPECT_FALSE(MayName());
  WordsUntil(2200 + 2000, true);
  EXPECT_TRUE(MayName());
}

TEST_F(WordPaceTest, WhoIsALittleLateHasNotStoodStill) {
  WordsUntil(1000, false);
  now_ += milliseconds(900);
  pace_.Wake(now_, false);
  EXPECT_TRUE(MayName());
}

}  // namespace
}  // namespace muster
