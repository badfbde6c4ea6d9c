#include "lib/base/mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

TEST(Mailboxes, WhatIsPostedIsTakenBeforeWhatIsPostedBehindAndEachInOrder) {
  Mailbox<std::string> box;
  for (const char* data : {"data 1", "data 2"}) EXPECT_TRUE(box.PostBehind(data));
  for (const char* control : {"control 1", "control 2"}) EXPECT_TRUE(box.Post(control));
  EXPECT_EQ(box.size(), 4u);
  std::vector<std::string> taken;
  while (const auto item = box.TryTake()) {
    taken.push_back(*item);
    if (taken.size() == 3) box.Post("control 3");
  }
  EXPECT_THAT(taken,
              testing::ElementsAre("control 1", "control 2", "data 1", "control 3", "data 2"));
}

TEST(Mailboxes, OneThatIsClosedGivesWhatItHasAndTakesNothing) {
  Mailbox<int> box;
  box.PostBehind(2);
  box.Post(1);
  box.Close();
  EXPECT_FALSE(box.Post(3));
  EXPECT_FALSE(box.PostBehind(4));
  EXPECT_EQ(box.TakeUntil(Time::max()), 1);
  EXPECT_EQ(box.TakeUntil(Time::max()), 2);
  EXPECT_EQ(box.TakeUntil(Time::max()), std::nullopt);
}

}  // namespace
}  // namespace muster
