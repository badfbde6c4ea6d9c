#include "cli/room.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kNone[] = "the hosts that stay have no room for the job";

class RoomTest : public testing::Test {
 protected:
  void Wait(Duration time) {
    now_ += time;
    while (!calls_.empty() && calls_.begin()->first <= now_) {
      const auto call = calls_.extract(calls_.begin()).mapped();
      call();
    }
  }

  Duration now_{};
  std::multimap<Duration, std::function<void()>> calls_;
  std::vector<std::string> heard_;
  Room room_{seconds(600),
             [this](Duration delay, std::function<void()> call) {
               calls_.emplace(now_ + delay, std::move(call));
             },
             [this](const std::string& why) { heard_.push_back(why); }};
};

TEST_F(RoomTest, AJobThatWaitsForHostsThatMayComeAgainHasThePatienceOfTheRun) {
  room_.OnState("queued");
  Wait(seconds(599));
  room_.OnState("queued");
  EXPECT_THAT(heard_, IsEmpty());
  Wait(seconds(1));
  EXPECT_THAT(heard_,
              ElementsAre("for 10:00 min the hosts that are there have had no room for the job"));
}

TEST_F(RoomTest, AJobThatHasFoundRoomBegins) {
  room_.OnState("queued");
  Wait(seconds(400));
  room_.OnState("running");
  Wait(seconds(400));
  EXPECT_THAT(heard_, IsEmpty());
  room_.OnState("queued");
  Wait(seconds(599));
  EXPECT_THAT(heard_, IsEmpty()) << "it is waited for anew";
}

TEST_F(RoomTest, WhereThisHostLeavesTheJobHasAMomentToFindRoom) {
  room_.OnState("running");
  room_.OnLeave();
  EXPECT_TRUE(room_.leaving());
  room_.OnStaying(true);
  Wait(seconds(1000));
  EXPECT_THAT(heard_, IsEmpty()) << "it goes on elsewhere";
  room_.OnState("queued");
  Wait(seconds(14));
  EXPECT_THAT(heard_, IsEmpty());
  Wait(seconds(1));
  EXPECT_THAT(heard_, ElementsAre(kNone));
}

TEST_F(RoomTest, ThatMomentBeginsWhenThisHostLeaves) {
  room_.OnState("queued");
  Wait(seconds(590));
  room_.OnLeave();
  room_.OnStaying(true);
  Wait(seconds(14));
  EXPECT_THAT(heard_, IsEmpty());
  Wait(seconds(1));
  EXPECT_THAT(heard_, ElementsAre(kNone));
}

TEST_F(RoomTest, WhereAllLeaveNobodyWaits) {
  room_.OnState("queued");
  room_.OnLeave();
  room_.OnStaying(false);
  EXPECT_THAT(heard_, ElementsAre(kNone));
}

TEST_F(RoomTest, WhereAllHaveLeftAJobThatGivesWayIsNotWaitedFor) {
  room_.OnState("running");
  room_.OnLeave();
  room_.OnStaying(false);
  EXPECT_THAT(heard_, IsEmpty());
  room_.OnState("queued");
  EXPECT_THAT(heard_, ElementsAre(kNone));
}

TEST_F(RoomTest, AHostThatIsLostMayComeBackForHalfAMinute) {
  room_.OnState("running");
  room_.OnLeave();
  room_.OnStaying(false);
  Wait(seconds(29));
  room_.OnStaying(true);
  Wait(seconds(29));
  room_.OnStaying(false);
  Wait(seconds(29));
  EXPECT_THAT(heard_, IsEmpty());
  room_.OnStaying(false);
  Wait(seconds(1));
  EXPECT_THAT(heard_, ElementsAre(kNone));
}

}  // namespace
}  // namespace muster::cli
