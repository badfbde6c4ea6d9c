#include "lib/base/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Backoff, DoublesUpToItsLongestAndBeginsAnew) {
  Backoff backoff(7, seconds(1), seconds(6));
  for (int round = 0; round < 2; ++round) {
    for (const Duration most : {seconds(1), seconds(2), seconds(4), seconds(6), seconds(6)}) {
      const Duration pause = backoff.Next();
      EXPECT_GE(pause, most / 2);
      EXPECT_LE(pause, most);
    }
    backoff.Reset();
  }
  backoff.BeLongest();
  EXPECT_GE(backoff.Next(), seconds(3));
}

// An API that was away is not asked by all at one moment: of a hundred, hardly two come within the
// same thousandth of a second, and they come over all of the time.
TEST(Backoff, WhoFailedTogetherComesBackSpread) {
  std::set<int64_t> moments;
  int early = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Duration pause = Backoff(seed, seconds(8), seconds(8)).Next();
    moments.insert(std::chrono::floor<milliseconds>(pause).count());
    if (pause < seconds(6)) ++early;
  }
  EXPECT_GE(moments.size(), 95u) << "they come back at one moment";
  EXPECT_GE(early, 30);
  EXPECT_LE(early, 70);
}

}  // namespace
}  // namespace muster
