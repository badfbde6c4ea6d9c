#include "coordinator/state/refusals.h"

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Time kNow = Time(std::chrono::hours(1));
constexpr Duration kMinute = std::chrono::minutes(1);

TEST(Refusals, AreToldOnceForEachNameAndReason) {
  Refusals refusals{"attempt to join", "attempts to join"};
  struct Row {
    std::string name, why;
    bool news;
  };
  for (const Row& row : {Row{"a", "data", true}, Row{"a", "data", false}, Row{"b", "data", true},
                         Row{"a", "start", true}, Row{"a", "start", false}, Row{"a", "data", true}})
    EXPECT_EQ(refusals.Tell({row.name, true, row.why, row.name + row.why}, kNow).empty(), !row.news)
        << row.name << " " << row.why;
}

// Names and reasons are a stranger's to choose: what is told follows from the time alone.
TEST(Refusals, WithEverOtherNamesAndReasonsFillNoLog) {
  Refusals refusals{"attempt to join", "attempts to join"};
  int64_t told = 0;
  for (int i = 0; i < 100'000; ++i) {  // in ten minutes
    const Time now = kNow + i * 10 * kMinute / 100'000;
    told += static_cast<int64_t>(refusals.TellRest(now).size());
    told += static_cast<int64_t>(
        refusals.Tell({absl::StrCat("w", i % 200), false, "data", absl::StrCat(i)}, now).size());
  }
  EXPECT_GE(told, 10);
  EXPECT_LE(told, 10 * (kToldInAMinute + 1));
}

// Whoever refuses has few kinds. Should one of them come from a stranger's words all the same, a
// tick looks at no more of them, and no more is told.
TEST(Refusals, OfEverOtherKindsAreOneKindInTheEnd) {
  Refusals refusals{"attempt to join", "attempts to join"};
  constexpr size_t kMostKinds = 64;
  size_t told = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string word = absl::StrCat(i);
    told += refusals.Tell({"stranger", false, word, word}, kNow).size();
  }
  EXPECT_EQ(told, kMostKinds + kToldInAMinute);
  EXPECT_THAT(refusals.TellRest(kNow + kMinute),
              ElementsAre(absl::StrCat(10'000 - told,
                                       " more attempts to join were turned away: for various "
                                       "reasons")));
  EXPECT_THAT(refusals.Tell({"worker-0", true, "0", "one that is known"}, kNow + kMinute),
              ElementsAre("one that is known"));
}

TEST(Refusals, OneOfTheJobsOwnNamesIsToldWithinAMinuteWhateverStrangersDo) {
  Refusals refusals{"attempt to join", "attempts to join"};
  for (int i = 0; i < 1000; ++i)
    refusals.Tell({absl::StrCat("stranger-", i), false, "it has other data", absl::StrCat(i)},
                  kNow);
  EXPECT_THAT(refusals.Tell({"worker-1", true, "it has other data", "worker-1 …"}, kNow),
              IsEmpty());
  EXPECT_THAT(refusals.Tell({"worker-2", true, "it is of another start", "worker-2 …"}, kNow),
              ElementsAre("worker-2 …"))
      << "another kind is told at once";
  EXPECT_THAT(refusals.TellRest(kNow + kMinute / 2), IsEmpty());
  EXPECT_THAT(refusals.TellRest(kNow + kMinute),
              ElementsAre("997 more attempts to join were turned away: it has other data "
                          "(worker-1)"));
  EXPECT_THAT(refusals.TellRest(kNow + 3 * kMinute), IsEmpty()) << "once";
}

TEST(Refusals, WhatWasCountedIsToldBeforeTheNext) {
  Refusals refusals{"attempt to join", "attempts to join"};
  for (int i = 0; i <= kToldInAMinute; ++i)
    refusals.Tell({absl::StrCat(i), false, "late", absl::StrCat(i)}, kNow);
  EXPECT_THAT(refusals.Tell({"worker-0", true, "late", "worker-0 is late"}, kNow + kMinute),
              ElementsAre("1 more attempt to join was turned away: late", "worker-0 is late"));
}

}  // namespace
}  // namespace muster::coordinator
