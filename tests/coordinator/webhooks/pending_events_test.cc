// Tables of what is sent when, and what becomes of what is not taken.
#include "coordinator/webhooks/pending_events.h"

#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kWritten = 1'000'000'000;  // milliseconds since 1970
constexpr int64_t kDay = 24 * 3600 * 1000;

PlacedEvent At(int64_t seq, const std::string& job) {
  return {{1, seq}, {.type = "job.done", .unix_ms = kWritten, .job = job}};
}

class PendingEventsTest : public testing::Test {
 protected:
  int64_t NextSeq() const {
    const PlacedEvent* next = pending_.Next(now_);
    return next == nullptr ? 0 : next->place.seq;
  }
  PendingEvents::Outcome Answer(int64_t seq, const WebhookAnswer& answer,
                                int64_t unix_ms = kWritten) {
    return pending_.OnAnswer({1, seq}, answer, now_, unix_ms, /*chance=*/1);
  }
  void AddAll(const std::vector<std::string>& jobs) {
    int64_t seq = 0;
    for (const std::string& job : jobs) pending_.Add(At(++seq, job));
  }

  PendingEvents pending_{{1, 1}, RetryLimits{}};
  Time now_{seconds(1000)};
};

TEST(ReceptionTest, OfEachAnswer) {
  const struct {
    int status;
    Reception reception;
  } kCases[] = {{0, Reception::kReceiverTrouble},   {200, Reception::kTaken},
                {204, Reception::kTaken},           {299, Reception::kTaken},
                {301, Reception::kEventTrouble},    {302, Reception::kEventTrouble},
                {400, Reception::kEventTrouble},    {404, Reception::kEventTrouble},
                {408, Reception::kReceiverTrouble}, {410, Reception::kGone},
                {429, Reception::kReceiverTrouble}, {500, Reception::kEventTrouble},
                {502, Reception::kReceiverTrouble}, {503, Reception::kReceiverTrouble},
                {504, Reception::kReceiverTrouble}, {999, Reception::kEventTrouble}};
  for (const auto& c : kCases)
    EXPECT_EQ(ReceptionOf({.status = c.status}), c.reception) << c.status;
}

TEST(PauseTest, DoublesUpToABoundAndIsSpread) {
  const RetryLimits limits;
  EXPECT_EQ(PauseAfter(1, 1, limits), seconds(1));
  EXPECT_EQ(PauseAfter(1, 0, limits), milliseconds(500));
  EXPECT_EQ(PauseAfter(2, 1, limits), seconds(2));
  EXPECT_EQ(PauseAfter(5, 1, limits), seconds(16));
  EXPECT_EQ(PauseAfter(10, 1, limits), seconds(512));
  EXPECT_EQ(PauseAfter(11, 1, limits), minutes(15));
  EXPECT_EQ(PauseAfter(1'000'000, 1, limits), minutes(15));
  EXPECT_EQ(PauseAfter(1'000'000, 0, limits), seconds(450));
}

TEST_F(PendingEventsTest, GoInOrder) {
  AddAll({"a", "b", "a"});
  for (int64_t seq = 1; seq <= 3; ++seq) {
    EXPECT_EQ(pending_.cursor(), (OutboxPlace{1, seq}));
    EXPECT_EQ(NextSeq(), seq);
    EXPECT_EQ(NextSeq(), seq) << "it stays until it is answered";
    EXPECT_EQ(Answer(seq, {.status = 200}).reception, Reception::kTaken);
  }
  EXPECT_EQ(NextSeq(), 0);
  EXPECT_FALSE(pending_.NextAt());
  EXPECT_EQ(pending_.cursor(), (OutboxPlace{1, 4}));
  pending_.PassOver({1, 4});
  EXPECT_EQ(pending_.cursor(), (OutboxPlace{1, 5}));
  pending_.ReadUpTo({2, 1});
  EXPECT_EQ(pending_.cursor(), (OutboxPlace{2, 1}));
}

TEST_F(PendingEventsTest, AnEventThatIsNotTakenHoldsUpItsJobAlone) {
  AddAll({"a", "b", "a", "b"});
  Answer(1, {.status = 500});
  EXPECT_EQ(NextSeq(), 2);
  Answer(2, {.status = 200});
  EXPECT_EQ(NextSeq(), 4) << "3 is of the job of 1";
  Answer(4, {.status = 200});
  EXPECT_EQ(NextSeq(), 0);
  EXPECT_EQ(pending_.cursor(), (OutboxPlace{1, 1})) << "after a crash 1 is to come again";
  EXPECT_EQ(pending_.NextAt(), now_ + seconds(1));
  now_ += seconds(1);
  EXPECT_EQ(NextSeq(), 1);
  Answer(1, {.status = 500});
  EXPECT_EQ(pending_.NextAt(), now_ + seconds(2));
  now_ += seconds(2);
  Answer(1, {.status = 200});
  EXPECT_EQ(NextSeq(), 3);
}

TEST_F(PendingEventsTest, AReceiverInTroubleIsLeftAlone) {
  AddAll({"a", "b"});
  Answer(1, {.status = 503});
  EXPECT_EQ(NextSeq(), 0);
  now_ += seconds(1);
  EXPECT_EQ(NextSeq(), 1);
  Answer(1, {.why = "connection refused"});
  EXPECT_EQ(pending_.failures(), 2);
  EXPECT_EQ(pending_.NextAt(), now_ + seconds(2));
  now_ += seconds(2);
  Answer(1, {.status = 200});
  EXPECT_EQ(pending_.failures(), 0);
  EXPECT_EQ(NextSeq(), 2) << "it is well again";
}

TEST_F(PendingEventsTest, RetryAfterIsHeededWithinBounds) {
  const struct {
    int status;
    Duration asked, pause;
  } kCases[] = {{503, seconds(20), seconds(20)},
                {429, hours(9), hours(1)},
                {500, seconds(20), seconds(20)},
                {503, Duration(0), seconds(1)}};
  for (const auto& c : kCases) {
    PendingEvents pending({1, 1}, {});
    pending.Add(At(1, "a"));
    pending.OnAnswer({1, 1}, {.status = c.status, .retry_after = c.asked}, now_, kWritten, 1);
    EXPECT_EQ(pending.NextAt(), now_ + c.pause) << c.status;
  }
}

TEST_F(PendingEventsTest, IsGivenUpAfterADayOfTries) {
  AddAll({"a"});
  const Time began = now_;
  int tries = 0;
  PendingEvents::Outcome outcome;
  while (outcome.given_up.empty()) {
    ASSERT_LT(++tries, 1000);
    now_ = std::max(now_, *pending_.NextAt());
    ASSERT_EQ(NextSeq(), 1);
    const auto passed = std::chrono::duration_cast<milliseconds>(now_ - began);
    outcome = Answer(1, {.status = 500}, kWritten + passed.count());
  }
  EXPECT_EQ(outcome.given_up[0].place, (OutboxPlace{1, 1}));
  EXPECT_GE(now_ - began, hours(24));
  EXPECT_LE(now_ - began, hours(25));
  EXPECT_EQ(pending_.size(), 0u);
  EXPECT_EQ(pending_.cursor(), (OutboxPlace{1, 2}));
}

TEST_F(PendingEventsTest, AClockThatJumpsDropsNothingAtOnce) {
  AddAll({"a"});
  EXPECT_TRUE(Answer(1, {.status = 500}, kWritten + 400 * kDay).given_up.empty());
  EXPECT_TRUE(Answer(1, {.why = "timed out"}, kWritten + 400 * kDay).given_up.empty());
  EXPECT_EQ(pending_.size(), 1u);
  // And one that goes back keeps nothing for ever.
  now_ += hours(25);
  size_t given_up = 0;
  for (int i = 0; i < 12; ++i)
    given_up += Answer(1, {.status = 500}, kWritten - 400 * kDay).given_up.size();
  EXPECT_EQ(given_up, 1u);
}

TEST_F(PendingEventsTest, WhatIsOldGoesTogetherWhereNobodyAnswers) {
  AddAll({"a", "b", "c"});
  PlacedEvent young = At(4, "d");
  young.event.unix_ms += 2 * kDay;
  pending_.Add(young);
  size_t given_up = 0;
  for (int i = 0; i < 12; ++i)
    given_up += Answer(1, {.why = "refused"}, kWritten + 2 * kDay).given_up.size();
  EXPECT_EQ(given_up, 3u);
  EXPECT_EQ(pending_.size(), 1u);
}

TEST_F(PendingEventsTest, HasABound) {
  PendingEvents pending({1, 1}, {.window = 2});
  pending.Add(At(1, "a"));
  EXPECT_EQ(pending.room(), 1u);
  pending.Add(At(2, "a"));
  EXPECT_EQ(pending.room(), 0u);
}

TEST_F(PendingEventsTest, WhatIsDroppedIsCounted) {
  AddAll({"a", "b", "c"});
  EXPECT_EQ(pending_.DropBefore({1, 3}), 2u);
  EXPECT_EQ(NextSeq(), 3);
  EXPECT_EQ(pending_.DropBefore({4, 1}), 1u);
  EXPECT_EQ(pending_.read_from(), (OutboxPlace{4, 1}));
  EXPECT_EQ(pending_.cursor(), (OutboxPlace{4, 1}));
}

TEST_F(PendingEventsTest, GoneChangesNothingHere) {
  AddAll({"a"});
  EXPECT_EQ(Answer(1, {.status = 410}).reception, Reception::kGone);
  EXPECT_EQ(pending_.size(), 1u);
}

}  // namespace
}  // namespace muster::coordinator
