#include "coordinator/runtime/event_log.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;

void Fill(EventLog& log, int n) {
  for (int i = 0; i < n; ++i) log.Append("a", {.event = "step"});
}

class EventLogTest : public ::testing::Test {
 protected:
  std::vector<std::string> SeenAfter(const std::string& after) {
    auto seen = std::make_shared<std::vector<std::string>>();
    log_.Watch("a", after, [seen](const JobEvent& event) {
      seen->push_back(event.event + ":" + event.id);
      return true;
    });
    return *seen;
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

TEST_F(EventLogTest, GarbageForAPlaceMeansTheBeginning) {
  Fill(log_, 1);
  for (const char* place : {"x", "-", "3-x", "--1", "99999999999999999999"})
    EXPECT_THAT(SeenAfter(place), ElementsAre("step:3-1")) << place;
}

TEST_F(EventLogTest, FollowsUntilTheWatcherWantsNoMore) {
  int seen = 0;
  log_.Watch("a", "", [&](const JobEvent&) { return ++seen < 2; });
  Fill(log_, 5);
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace muster::coordinator
