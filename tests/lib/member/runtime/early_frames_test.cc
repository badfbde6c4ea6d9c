#include "lib/member/runtime/early_frames.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace muster {
namespace {

const MemberId kPeer{"worker-1", {1, 1}};

Incoming Data(Receipt receipt) {
  return {kPeer,
          Partials{LineageNumber(1), ViewNumber(7), Step(3), {}, {}},
          std::make_shared<Payload>(),
          {},
          std::move(receipt)};
}
Incoming Asking(Receipt receipt, size_t chunks = 1) {
  Fetch fetch{ViewNumber(7), PieceKind::kValues, 0, Step(3), {}};
  fetch.chunks.resize(chunks);
  return {kPeer, std::move(fetch), std::make_shared<Payload>(), {}, std::move(receipt)};
}

class EarlyFramesTest : public testing::Test {
 protected:
  EarlyFramesTest() {
    room_->Limit({.first_frame = 100, .held = 4 * kFrameWeight});
    room_->Admit();
  }
  int reads_ = 0;  // that were told to go on
  const std::shared_ptr<InboundRoom> room_ = std::make_shared<InboundRoom>([this] { ++reads_; });
  EarlyFrames early_{10};
};

TEST_F(EarlyFramesTest, OfOneThatSendsDataAheadALittleIsReadUntilItIsDue) {
  int read = 0;
  for (; read < 100 && room_->MayReadOn(); ++read) ASSERT_TRUE(early_.Keep(Data(room_->Hold(0))));
  EXPECT_EQ(read, 4) << "data ahead of time counts until it is due";
  auto due = early_.TakeAll();
  EXPECT_EQ(due[kPeer].size(), 4u);
  EXPECT_EQ(reads_, 0) << "nothing of it is dealt with yet";
  for (Incoming& frame : due[kPeer])
    ASSERT_TRUE(early_.Keep(std::move(frame))) << "still too early";
  EXPECT_FALSE(room_->MayReadOn());
  early_.TakeAll();
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(room_->held(), 0u);
}

TEST_F(EarlyFramesTest, WhatABrokenSessionBroughtIsGivenBack) {
  ASSERT_TRUE(early_.Keep(Data(room_->Hold(0))));
  early_.Forget(kPeer);
  EXPECT_EQ(room_->held(), 0u);
  EXPECT_TRUE(early_.TakeAll().empty());
}

// What is asked for may come behind the question, on the same session.
TEST_F(EarlyFramesTest, AQuestionHoldsUpNothingBehindIt) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(early_.Keep(Asking(room_->Hold(0))));
    ASSERT_TRUE(room_->MayReadOn());
  }
  EXPECT_EQ(early_.TakeAll()[kPeer].size(), 100u);
}

TEST_F(EarlyFramesTest, MoreQuestionsThanTheJobHasChunksForAreRefused) {
  int kept = 0;
  while (kept < 1'000'000 && early_.Keep(Asking(nullptr))) ++kept;
  EXPECT_GT(kept, 10);
  EXPECT_LT(kept, 1000);
  EarlyFrames large(1'000'000);
  EXPECT_FALSE(early_.Keep(Asking(nullptr, 1 << 20)));
  EXPECT_TRUE(large.Keep(Asking(nullptr, 1 << 20)));
}

}  // namespace
}  // namespace muster
