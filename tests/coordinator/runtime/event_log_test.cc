#include "coordinator/runtime/event_log.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/printable.h"
#include "tests/coordinator/runtime/kept_events.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;

void Fill(EventLog& log, int n) {
  for (int i = 0; i < n; ++i) log.Append("a", {.event = "step"});
}

void DeliverAll(EventLog& log) {
  log.AllIsTold();
  while (log.Deliver()) {
  }
}

class EventLogTest : public ::testing::Test {
 protected:
  std::vector<std::string> SeenAfter(std::optional<EventPlace> after) {
    KeptEvents kept;
    log_.Watch("a", after, log_.next(), kept.NewWatcher(), true);
    DeliverAll(log_);
    EXPECT_TRUE(kept.ended()) << "of a job that is over nothing comes after the replay";
    return kept.TakeAll();
  }
  EventLog log_{TermNumber(3), {.events = 4}};
};

TEST_F(EventLogTest, ReplaysAllThatIsKept) {
  Fill(log_, 2);
  log_.Append("b", {.event = "step"});
  EXPECT_THAT(SeenAfter(std::nullopt), ElementsAre("step:3-1", "step:3-2"));
}

TEST_F(EventLogTest, ReplaysWhatCameAfterAPlace) {
  Fill(log_, 3);
  EXPECT_THAT(SeenAfter(EventPlace{TermNumber(3), 2}), ElementsAre("step:3-3"));
  EXPECT_THAT(SeenAfter(EventPlace{TermNumber(3), 3}), ElementsAre());
}

TEST_F(EventLogTest, SaysThatNumbersBeginAgainWhenThePlaceIsOfAnotherTerm) {
  Fill(log_, 1);
  EXPECT_THAT(SeenAfter(EventPlace{TermNumber(2), 1}), ElementsAre("restart:3-0", "step:3-1"));
  EXPECT_THAT(SeenAfter(EventPlace{TermNumber(3), 77}), ElementsAre("restart:3-0", "step:3-1"));
}

// Whoever says them, and whoever reads them.
TEST_F(EventLogTest, TextsAreMadeSafeAndCut) {
  struct LastEvent final : JobWatcher {
    bool OnEvent(const JobEvent& given) override {
      event = given;
      return true;
    }
    bool closed() const override { return false; }
    JobEvent event;
  };
  log_.Append("a", {.event = "process",
                    .text = "one\xc2\x9b\n" + std::string(1 << 20, 'x'),
                    .fields = {{"member", "\x1b[2J\xff\n" + std::string(1 << 20, 'y')}}});
  const auto watcher = std::make_shared<LastEvent>();
  log_.Watch("a", std::nullopt, log_.next(), watcher, true);
  DeliverAll(log_);
  EXPECT_THAT(watcher->event.text, ::testing::StartsWith("one\\x9b\nxx"));
  EXPECT_EQ(watcher->event.text.size(), kMostLinesBytes);
  EXPECT_THAT(watcher->event.fields.at("member"), ::testing::StartsWith("\\x1b[2J?\\nyy"));
  EXPECT_EQ(watcher->event.fields.at("member").size(), kMostShownBytes);
}

TEST_F(EventLogTest, SaysWhenEventsAreMissing) {
  Fill(log_, 6);
  EXPECT_THAT(SeenAfter(EventPlace{TermNumber(3), 1}),
              ElementsAre("gap:3-2", "step:3-3", "step:3-4", "step:3-5", "step:3-6"));
  EXPECT_THAT(SeenAfter(EventPlace{TermNumber(3), 2}),
              ElementsAre("step:3-3", "step:3-4", "step:3-5", "step:3-6"));
}

TEST_F(EventLogTest, EventsOfOtherJobsThatWereDroppedAreNotMissed) {
  log_.Append("a", {.event = "first"});
  for (int i = 0; i < 3; ++i) log_.Append("b", {.event = "step"});
  EXPECT_THAT(SeenAfter(std::nullopt), ElementsAre("first:3-1"));
}

// A job with much to say forgets its own events, not another's.
TEST_F(EventLogTest, EachJobHasABudgetOfItsOwn) {
  log_.Append("b", {.event = "first"});
  Fill(log_, 20);
  KeptEvents kept;
  log_.Watch("b", std::nullopt, log_.next(), kept.NewWatcher(), true);
  DeliverAll(log_);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("first:3-1"));
}

TEST_F(EventLogTest, WhenAllIsFullTheJobWithTheMostGivesWay) {
  EventLog log(TermNumber(3), /*of_job=*/{.events = 4}, /*in_all=*/{.events = 5});
  for (int i = 0; i < 4; ++i) log.Append("a", {.event = "step"});
  log.Append("b", {.event = "step"});
  log.Append("b", {.event = "step"});
  KeptEvents a, b;
  log.Watch("a", std::nullopt, log.next(), a.NewWatcher(), true);
  log.Watch("b", std::nullopt, log.next(), b.NewWatcher(), true);
  DeliverAll(log);
  EXPECT_THAT(a.TakeAll(), ElementsAre("gap:3-1", "step:3-2", "step:3-3", "step:3-4"));
  EXPECT_THAT(b.TakeAll(), ElementsAre("step:3-5", "step:3-6"));
}

TEST_F(EventLogTest, EventsAreWeighedOfOneJobAndOfAll) {
  const JobEvent large{.event = "process", .text = std::string(4'000, 'x')};
  EventLog log(TermNumber(3), /*of_job=*/{.bytes = 10'000}, /*in_all=*/{.bytes = 18'000});
  KeptEvents a, b, c;
  for (int i = 0; i < 3; ++i) log.Append("a", large);
  log.Append("b", {.event = "step"});
  for (int i = 0; i < 2; ++i)
    log.Append("b", {.event = "process", .text = std::string(4'010, 'x')});
  log.Append("c", large);
  for (auto& [job, kept] : {std::pair<std::string, KeptEvents*>{"a", &a}, {"b", &b}, {"c", &c}})
    log.Watch(job, std::nullopt, log.next(), kept->NewWatcher(), true);
  DeliverAll(log);
  EXPECT_THAT(a.TakeAll(), ElementsAre("gap:3-1", "process:3-2", "process:3-3"));
  EXPECT_THAT(b.TakeAll(), ElementsAre("gap:3-5", "process:3-6"))
      << "it had the most when all became too much";
  EXPECT_THAT(c.TakeAll(), ElementsAre("process:3-7"));
}

TEST_F(EventLogTest, OfAJobThatIsForgottenNothingIsReplayed) {
  KeptEvents watching;
  log_.Watch("a", std::nullopt, log_.next(), watching.NewWatcher(), false);
  Fill(log_, 6);
  log_.Forget("a");
  EXPECT_TRUE(watching.ended());
  EXPECT_THAT(SeenAfter(std::nullopt), ElementsAre());
}

TEST(ParseEventPlace, TakesTheIdOfAnEventAndNothingElse) {
  const std::optional<EventPlace> place = ParseEventPlace("3-14");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->term, TermNumber(3));
  EXPECT_EQ(place->seq, 14);
  for (const char* id :
       {"", "x", "-", "2", "3-", "-3", "3-x", "--1", "-1--1", "3--1", "+3-1", "3-+1", " 3-1",
        "3-1 ", "3 -1", "3-1-1", "99999999999999999999-1", "3-99999999999999999999"})
    EXPECT_FALSE(ParseEventPlace(id).has_value()) << id;
}

TEST_F(EventLogTest, FollowsUntilTheWatcherWantsNoMore) {
  KeptEvents kept;
  log_.Watch("a", std::nullopt, log_.next(), kept.NewWatcher(), false);
  Fill(log_, 2);
  DeliverAll(log_);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("step:3-1", "step:3-2"));
  Fill(log_, 1);
  DeliverAll(log_);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("step:3-3"));
  EXPECT_EQ(log_.watchers(), 1u);
  kept.Close();
  DeliverAll(log_);
  EXPECT_EQ(log_.watchers(), 0u) << "no event was needed for it";
  EXPECT_TRUE(kept.ended());
}

TEST_F(EventLogTest, FollowsUntilTheJobIsOver) {
  KeptEvents kept;
  KeptEvents other;
  log_.Watch("a", std::nullopt, log_.next(), kept.NewWatcher(), false);
  log_.Watch("b", std::nullopt, log_.next(), other.NewWatcher(), false);
  log_.Append("a", {.event = "done"});
  DeliverAll(log_);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("done:3-1"));
  EXPECT_TRUE(kept.ended());
  EXPECT_FALSE(other.ended());
}

// A job is known to be over a moment before its last event is there.
TEST_F(EventLogTest, WhoWatchesAJobThatHasJustEndedGetsItsEnd) {
  KeptEvents knew, knew_not;
  const int64_t since = log_.next();
  log_.Watch("a", std::nullopt, since, knew.NewWatcher(), true);
  EXPECT_FALSE(log_.Deliver());
  EXPECT_FALSE(knew.ended()) << "its end is still to be told";
  log_.Append("a", {.event = "done"});
  log_.Watch("a", std::nullopt, since, knew_not.NewWatcher(), false);
  DeliverAll(log_);
  for (KeptEvents* kept : {&knew, &knew_not}) {
    EXPECT_THAT(kept->TakeAll(), ElementsAre("done:3-1"));
    EXPECT_TRUE(kept->ended());
  }
}

TEST_F(EventLogTest, AnEarlierEndOfAJobThatWasSubmittedAgainEndsNoWatching) {
  log_.Append("a", {.event = "done"});
  log_.Append("a", {.event = "state"});
  KeptEvents kept;
  log_.Watch("a", std::nullopt, log_.next(), kept.NewWatcher(), false);
  DeliverAll(log_);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("done:3-1", "state:3-2"));
  EXPECT_FALSE(kept.ended());
}

// Whoever appends waits for no watcher, and a watcher that lags is told what it missed.
TEST_F(EventLogTest, AWatcherThatLagsIsToldOfTheGap) {
  KeptEvents kept;
  log_.Watch("a", std::nullopt, log_.next(), kept.NewWatcher(), false);
  Fill(log_, 1);
  DeliverAll(log_);
  kept.TakeAll();
  Fill(log_, 6);
  DeliverAll(log_);
  EXPECT_THAT(kept.TakeAll(),
              ElementsAre("gap:3-3", "step:3-4", "step:3-5", "step:3-6", "step:3-7"));
}

TEST_F(EventLogTest, ALongReplayIsGivenInParts) {
  EventLog log(TermNumber(3), {.events = 1000});
  for (int i = 0; i < 600; ++i) log.Append("a", {.event = "step"});
  KeptEvents first, second;
  log.Watch("a", std::nullopt, log.next(), first.NewWatcher(), false);
  log.Watch("a", std::nullopt, log.next(), second.NewWatcher(), false);
  EXPECT_TRUE(log.Deliver());
  EXPECT_EQ(first.TakeAll().size(), 256u);
  EXPECT_EQ(second.TakeAll().size(), 256u) << "nobody waits for another's whole replay";
  DeliverAll(log);
  EXPECT_EQ(first.TakeAll().size(), 344u);
}

}  // namespace
}  // namespace muster::coordinator
