#include "agent/runtime/signals.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;

TEST(Wishes, WhatFollowsWithinASecondIsTheSameWish) {
  Wishes wishes;
  const Time begin = Time{} + milliseconds(1);
  EXPECT_TRUE(wishes.Counts(begin));
  EXPECT_FALSE(wishes.Counts(begin));
  EXPECT_FALSE(wishes.Counts(begin + milliseconds(999)));
  EXPECT_TRUE(wishes.Counts(begin + milliseconds(1000)));
  EXPECT_FALSE(wishes.Counts(begin + milliseconds(1999)));
}

// As a shell does it that signals the group, and a supervisor that signals the leader besides.
TEST(SignalWatch, ASignalOfTheGroupAndOneOfTheLeaderAreOne) {
  BlockSignals();
  auto loop = EventLoop::Make().value();
  int wishes = 0;
  SignalWatch watch(*loop, [&](int) { ++wishes; });
  raise(SIGINT);
  raise(SIGTERM);
  loop->Post([&] { loop->Post([&] { loop->Quit(); }); });
  loop->Run();
  EXPECT_EQ(wishes, 1);
}

}  // namespace
}  // namespace muster::agent
