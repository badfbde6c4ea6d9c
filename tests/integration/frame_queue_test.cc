#include "tests/integration/frame_queue.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::integration {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr Time kStart{milliseconds(1000)};

std::vector<std::string> TakeAll(FrameQueue& queue, Time now) {
  std::vector<std::string> taken;
  while (auto frame = queue.Take(now)) taken.push_back(*frame);
  return taken;
}

// Ethernet and IP headers as far as anybody looks, and a body of zeros.
std::string TcpFrame() {
  std::string frame(200, '\0');
  frame[12] = 0x08;
  frame[14 + 9] = 6;
  return frame;
}

TEST(FrameQueue, FramesOfCalmWeatherGoOnAtOnce) {
  FrameQueue queue(1);
  queue.Admit("a", {}, kStart);
  queue.Admit("b", {}, kStart);
  EXPECT_THAT(TakeAll(queue, kStart), ElementsAre("a", "b"));
  EXPECT_FALSE(queue.NextDue().has_value());
}

TEST(FrameQueue, ADelayWithJitterKeepsTheOrder) {
  FrameQueue queue(1);
  const Weather weather{.delay = milliseconds(50), .jitter = milliseconds(20)};
  std::vector<std::string> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(std::to_string(i));
    queue.Admit(sent.back(), weather, kStart);
  }
  EXPECT_THAT(TakeAll(queue, kStart + milliseconds(29)), ElementsAre());
  EXPECT_EQ(TakeAll(queue, kStart + milliseconds(70)), sent);
}

TEST(FrameQueue, WhatOvertakesDoesNotWait) {
  FrameQueue queue(1);
  queue.Admit("a", {.delay = milliseconds(50)}, kStart);
  queue.Admit("b", {.delay = milliseconds(50), .overtake = 1}, kStart);
  EXPECT_THAT(TakeAll(queue, kStart), ElementsAre("b"));
  EXPECT_THAT(TakeAll(queue, kStart + milliseconds(50)), ElementsAre("a"));
  EXPECT_EQ(queue.fates().overtook, 1);
}

TEST(FrameQueue, ADuplicateComesRightBehind) {
  FrameQueue queue(1);
  queue.Admit("a", {.duplicate = 1}, kStart);
  queue.Admit("b", {}, kStart);
  EXPECT_THAT(TakeAll(queue, kStart), ElementsAre("a", "a", "b"));
}

TEST(FrameQueue, OneByteBehindTheEthernetHeaderOfATcpPacketIsAnother) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FrameQueue queue(seed);
    queue.Admit(TcpFrame(), {.corrupt = 1}, kStart);
    const std::string frame = *queue.Take(kStart);
    size_t changed = 0;
    for (size_t i = 0; i < frame.size(); ++i)
      if (frame[i] != TcpFrame()[i]) {
        ++changed;
        EXPECT_GE(i, 14u);
      }
    EXPECT_EQ(changed, 1u) << "seed " << seed;
  }
  FrameQueue queue(1);
  queue.Admit("arp", {.corrupt = 1}, kStart);
  EXPECT_EQ(*queue.Take(kStart), "arp");
}

TEST(FrameQueue, WhatHasNoRoomIsDropped) {
  FrameQueue queue(1);
  const size_t frames = FrameQueue::kMostBytes / 1000 + 10;
  for (size_t i = 0; i < frames; ++i) queue.Admit(std::string(1000, 'x'), {}, kStart);
  EXPECT_GT(queue.fates().dropped, 0);
  EXPECT_LE(TakeAll(queue, kStart).size() * 1000, FrameQueue::kMostBytes);
}

TEST(FrameQueue, EqualSeedsGiveEqualWeather) {
  const Weather weather{.delay = milliseconds(5),
                        .jitter = milliseconds(5),
                        .overtake = 0.2,
                        .duplicate = 0.2,
                        .corrupt = 0.2};
  FrameQueue one(7), other(7);
  for (int i = 0; i < 100; ++i) {
    one.Admit(TcpFrame(), weather, kStart);
    other.Admit(TcpFrame(), weather, kStart);
  }
  EXPECT_EQ(TakeAll(one, kStart + milliseconds(10)), TakeAll(other, kStart + milliseconds(10)));
  EXPECT_GT(one.fates().corrupted, 0);
}

}  // namespace
}  // namespace muster::integration
