#include "coordinator/runtime/fair_mailbox.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;

std::vector<std::string> TakeAll(FairMailbox<std::string>& box) {
  std::vector<std::string> taken;
  while (auto item = box.TryTake()) taken.push_back(*item);
  return taken;
}

TEST(FairMailbox, EachKeyHasItsTurnAndItsOrder) {
  FairMailbox<std::string> box;
  for (const char* item : {"a1", "a2", "a3", "a4"}) box.Post("a", item);
  box.Post("b", "b1");
  box.Post("c", "c1");
  box.Post("c", "c2");
  EXPECT_EQ(box.size(), 7u);
  EXPECT_THAT(TakeAll(box), ElementsAre("a1", "b1", "c1", "a2", "c2", "a3", "a4"));
  EXPECT_EQ(box.size(), 0u);
}

// However much waits under one key, who comes later under another waits for one item of it.
TEST(FairMailbox, AFloodDelaysOnlyItself) {
  FairMailbox<std::string> box;
  for (int i = 0; i < 1000; ++i) box.Post("flood", "flood");
  EXPECT_EQ(box.TryTake(), "flood");
  box.Post("quiet", "quiet");
  EXPECT_EQ(box.TryTake(), "quiet");
  box.Post("another", "another");
  box.Post("quiet", "quiet");
  EXPECT_EQ(box.TryTake(), "another");
  EXPECT_EQ(box.TryTake(), "flood");
  EXPECT_EQ(box.TryTake(), "quiet");
}

TEST(FairMailbox, WhatIsOfferedUnderAKeyIsBoundedInItemsAndBytes) {
  FairMailbox<std::string> box({.items = 2, .bytes = 10});
  EXPECT_TRUE(box.Offer("a", "a1", 6));
  EXPECT_FALSE(box.Offer("a", "too many bytes", 5));
  EXPECT_TRUE(box.Offer("b", "b1", 10)) << "each key has its own";
  EXPECT_FALSE(box.Offer("c", "too large alone", 11));
  EXPECT_TRUE(box.Offer("a", "a2", 4));
  EXPECT_FALSE(box.Offer("a", "too many items", 0));
  EXPECT_TRUE(box.Post("a", "ours")) << "what comes from ourselves is taken";
  EXPECT_THAT(TakeAll(box), ElementsAre("a1", "b1", "a2", "ours"));
  EXPECT_TRUE(box.Offer("a", "a3", 10)) << "nothing waits any more";
}

TEST(FairMailbox, ClosedItTakesNothingMoreAndGivesWhatItHas) {
  FairMailbox<std::string> box;
  EXPECT_TRUE(box.Post("a", "a1"));
  box.Close();
  EXPECT_FALSE(box.Post("a", "a2"));
  EXPECT_EQ(box.TakeUntil(Time::max()), "a1");
  EXPECT_EQ(box.TakeUntil(Time::max()), std::nullopt);
}

TEST(FairMailbox, WhoWaitsIsWoken) {
  FairMailbox<std::string> box;
  std::thread other([&] { box.Post("a", "a1"); });
  EXPECT_EQ(box.TakeUntil(Time::max()), "a1");
  other.join();
}

}  // namespace
}  // namespace muster::coordinator
