#include "lib/base/stop_signal.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(StopSignal, WaitsForItsTimeUntilItIsGiven) {
  StopSignal stop;
  EXPECT_FALSE(stop.stopped());
  EXPECT_FALSE(stop.WaitFor(std::chrono::milliseconds(1)));
  EXPECT_FALSE(stop.WaitUntil(Time{})) << "that time is over";
  stop.Stop();
  EXPECT_TRUE(stop.stopped());
  EXPECT_TRUE(stop.WaitFor(std::chrono::hours(1)));
  EXPECT_TRUE(stop.WaitUntil(Time{}));
}

TEST(StopSignal, WakesWhoWaits) {
  StopSignal stop;
  bool told = false;
  std::thread waits([&] { told = stop.WaitFor(std::chrono::hours(1)); });
  stop.Stop();
  waits.join();
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace muster
