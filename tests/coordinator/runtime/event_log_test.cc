#include "coordinator/runtime/event_log.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/runtime/kept_events.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;

void Fill(EventLog& log, int n) {
  for (int i = 0; i < n; ++i) log.Append("a", {.event = "step"});
}

class EventLogTest : public ::testing::Test {
 protected:
  std::vector<std::string> SeenAfter(const std::string& after) {
    KeptEvents kept;
    log_.Watch("a", after, kept.NewWatcher(), true);
    EXPECT_TRUE(kept.ended()) << "of a job that is over nothing comes after the replay";
    return kept.TakeAll();
  }
  EventLog log_{TermNumber(3), 4};
};

TEST_F(EventLogTest, ReplaysAllThatIsKept) {
  Fill(log_, 2);
  log_.Append("b", {.event = "step"});
  EXPECT_THAT(SeenAfter(""), ElementsAre("step:3-1", "step:3-2"));
}

TEST_F(EventLogTest, ReplaysWhatCameAfterAPlace) {
  Fill(log_, 3);
  EXPECT_THAT(SeenAfter("3-2"), ElementsAre("step:3-3"));
  EXPECT_THAT(SeenAfter("2"), ElementsAre("step:3-3"));
  EXPECT_THAT(SeenAfter("3"), ElementsAre());
}

TEST_F(EventLogTest, SaysThatNumbersBeginAgainWhenThePlaceIsOfAnotherTerm) {
  Fill(log_, 1);
  EXPECT_THAT(SeenAfter("2-1"), ElementsAre("restart:3-0", "step:3-1"));
  EXPECT_THAT(SeenAfter("77"), ElementsAre("restart:3-0", "step:3-1"));
}

TEST_F(EventLogTest, SaysWhenEventsAreMissing) {
  Fill(log_, 6);
  EXPECT_THAT(SeenAfter("3-1"),
              ElementsAre("gap:3-2", "step:3-3", "step:3-4", "step:3-5", "step:3-6"));
  EXPECT_THAT(SeenAfter("3-2"), ElementsAre("step:3-3", "step:3-4", "step:3-5", "step:3-6"));
}

TEST_F(EventLogTest, EventsOfOtherJobsThatWereDroppedAreNotMissed) {
  log_.Append("a", {.event = "first"});
  for (int i = 0; i < 3; ++i) log_.Append("b", {.event = "step"});
  EXPECT_THAT(SeenAfter(""), ElementsAre("first:3-1"));
}

// A job with much to say forgets its own events, not another's.
TEST_F(EventLogTest, EachJobHasABudgetOfItsOwn) {
  log_.Append("b", {.event = "first"});
  Fill(log_, 20);
  KeptEvents kept;
  log_.Watch("b", "", kept.NewWatcher(), true);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("first:3-1"));
}

TEST_F(EventLogTest, WhenAllIsFullTheJobWithTheMostGivesWay) {
  EventLog log(TermNumber(3), /*keep=*/4, /*keep_in_all=*/5);
  for (int i = 0; i < 4; ++i) log.Append("a", {.event = "step"});
  log.Append("b", {.event = "step"});
  log.Append("b", {.event = "step"});
  KeptEvents a, b;
  log.Watch("a", "", a.NewWatcher(), true);
  log.Watch("b", "", b.NewWatcher(), true);
  EXPECT_THAT(a.TakeAll(), ElementsAre("gap:3-1", "step:3-2", "step:3-3", "step:3-4"));
  EXPECT_THAT(b.TakeAll(), ElementsAre("step:3-5", "step:3-6"));
}

TEST_F(EventLogTest, OfAJobThatIsForgottenNothingIsReplayed) {
  KeptEvents watching;
  log_.Watch("a", "", watching.NewWatcher(), false);
  Fill(log_, 6);
  log_.Forget("a");
  EXPECT_TRUE(watching.ended());
  EXPECT_THAT(SeenAfter(""), ElementsAre());
}

TEST_F(EventLogTest, GarbageForAPlaceMeansTheBeginning) {
  Fill(log_, 1);
  for (const char* place : {"x", "-", "3-x", "--1", "99999999999999999999"})
    EXPECT_THAT(SeenAfter(place), ElementsAre("step:3-1")) << place;
}

TEST_F(EventLogTest, FollowsUntilTheWatcherWantsNoMore) {
  KeptEvents kept;
  log_.Watch("a", "", kept.NewWatcher(), false);
  Fill(log_, 2);
  EXPECT_THAT(kept.TakeAll(), ElementsAre("step:3-1", "step:3-2"));
  kept.Close();
  EXPECT_EQ(log_.watchers(), 1u);
  log_.Append("b", {.event = "step"});
  EXPECT_EQ(log_.watchers(), 0u) << "an event of another job is reason enough to look";
  EXPECT_TRUE(kept.ended());
}

TEST_F(EventLogTest, AWatcherThatIsClosedIsDroppedWithoutAnEvent) {
  KeptEvents kept;
  log_.Watch("a", "", kept.NewWatcher(), false);
  log_.DropClosed();
  EXPECT_EQ(log_.watchers(), 1u);
  kept.Close();
  log_.DropClosed();
  EXPECT_EQ(log_.watchers(), 0u);
}

TEST_F(EventLogTest, FollowsUntilTheJobIsOver) {
  KeptEvents kept;
  KeptEvents other;
  log_.Watch("a", "", kept.NewWatcher(), false);
  log_.Watch("b", "", other.NewWatcher(), false);
  log_.Append("a", {.event = "done"});
  EXPECT_THAT(kept.TakeAll(), ElementsAre("done:3-1"));
  EXPECT_TRUE(kept.ended());
  EXPECT_FALSE(other.ended());
}

}  // namespace
}  // namespace muster::coordinator
