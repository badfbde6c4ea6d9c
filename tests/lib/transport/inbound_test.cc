// The account of what a receiver holds of a session, without a session.
#include "lib/transport/inbound.h"

#include <gtest/gtest.h>

#include <barrier>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"

namespace muster {
namespace {

constexpr InboundLimits kLimits{.first_frame = 10, .held = 3 * kFrameWeight};

class InboundRoomTest : public testing::Test {
 protected:
  InboundRoomTest() { room_->Limit(kLimits); }
  int reads_ = 0;  // that were told to go on
  const std::shared_ptr<InboundRoom> room_ = std::make_shared<InboundRoom>([this] { ++reads_; });
};

TEST_F(InboundRoomTest, BeforeItIsAdmittedOneFrameIsHeld) {
  EXPECT_TRUE(room_->MayReadOn());
  Receipt first = room_->Hold(10);
  EXPECT_FALSE(room_->MayReadOn());
  EXPECT_EQ(reads_, 0);
  first.reset();
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(room_->held(), 0u);
}

TEST_F(InboundRoomTest, ItIsTheFirstFrameThatMustBeSmall) {
  EXPECT_TRUE(room_->CheckFirst(10).ok());
  EXPECT_EQ(room_->CheckFirst(11).code(), absl::StatusCode::kResourceExhausted);
  room_->Admit();
  EXPECT_TRUE(room_->CheckFirst(11).ok());
}

TEST_F(InboundRoomTest, OnceAdmittedItReadsWhileLessIsHeldThanAllowed) {
  room_->Admit();
  std::vector<Receipt> held;
  while (room_->MayReadOn()) held.push_back(room_->Hold(0));
  EXPECT_EQ(held.size(), 3u);
  Receipt copy = held.back();
  held.pop_back();
  EXPECT_EQ(reads_, 0) << "a copy is held";
  copy.reset();
  EXPECT_EQ(reads_, 1);
  held.clear();
  EXPECT_EQ(reads_, 1) << "nobody waits any more";
}

TEST_F(InboundRoomTest, AdmittingAndClosingLetOneThatWaitsReadOn) {
  for (const bool admit : {true, false}) {
    auto room = std::make_shared<InboundRoom>([this] { ++reads_; });
    const Receipt receipt = room->Hold(1);
    ASSERT_FALSE(room->MayReadOn());
    reads_ = 0;
    admit ? room->Admit() : room->Close();
    EXPECT_EQ(reads_, 1);
    room->Admit();
    EXPECT_TRUE(room->MayReadOn());
  }
}

TEST_F(InboundRoomTest, OneAdmittedBeforeItsLimitsAreSaidObeysThem) {
  auto room = std::make_shared<InboundRoom>([] {});
  room->Admit();
  room->Limit(kLimits);
  const Receipt receipt = room->Hold(3 * kFrameWeight);
  EXPECT_FALSE(room->MayReadOn());
}

// A room that is closed reads on whatever is held, also where it is admitted, or its limits are
// said, at the same moment.
TEST(InboundRooms, OneThatIsClosedWhileItIsAdmittedStaysClosed) {
  constexpr int kRounds = 20'000;
  std::barrier<> start(3), end(3);
  std::shared_ptr<InboundRoom> room;
  const auto round_by_round = [&](auto act) {
    for (int round = 0; round < kRounds; ++round) {
      start.arrive_and_wait();
      act();
      end.arrive_and_wait();
    }
  };
  std::thread admits([&] { round_by_round([&] { room->Admit(); }); });
  std::thread closes([&] { round_by_round([&] { room->Close(); }); });
  int stand_still = 0;
  for (int round = 0; round < kRounds; ++round) {
    room = std::make_shared<InboundRoom>([] {});
    const Receipt receipt = room->Hold(10 * kLimits.held);
    start.arrive_and_wait();
    room->Limit(kLimits);
    end.arrive_and_wait();
    if (!room->MayReadOn()) ++stand_still;
  }
  admits.join();
  closes.join();
  EXPECT_EQ(stand_still, 0);
}

// One thread reads, another is done with what was read: each wait ends.
TEST(InboundRooms, NoReadWaitsForEver) {
  constexpr int kFrames = 100'000;
  Mutex mutex;
  CondVar changed;
  std::deque<Receipt> held;
  bool may_read = true;
  const auto room = std::make_shared<InboundRoom>([&] {
    const MutexLock lock(mutex);
    may_read = true;
    changed.NotifyAll();
  });
  std::thread receiver([&] {
    for (int i = 0; i < kFrames; ++i) {
      MutexLock lock(mutex);
      while (held.empty()) changed.Wait(mutex);
      Receipt one = std::move(held.front());
      held.pop_front();
      lock.Unlock();
      one.reset();
    }
  });
  for (int i = 0; i < kFrames; ++i) {
    {
      MutexLock lock(mutex);
      while (!may_read) changed.Wait(mutex);
      held.push_back(room->Hold(0));
      may_read = false;
      changed.NotifyAll();
    }
    if (!room->MayReadOn()) continue;
    const MutexLock lock(mutex);
    may_read = true;
  }
  receiver.join();
  EXPECT_EQ(room->held(), 0u);
}

}  // namespace
}  // namespace muster
