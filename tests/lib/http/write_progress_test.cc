#include "lib/http/write_progress.h"

#include <gtest/gtest.h>

namespace muster::http {
namespace {

using std::chrono::seconds;

constexpr Time kBegan{seconds(1000)};
constexpr Duration kPatience = seconds(30);
constexpr size_t kPace = 8192;

Duration TimeLeft(const WriteProgress& progress) {
  return WriteDeadline(progress, kPatience, kPace) - kBegan;
}

TEST(WriteDeadline, OfOneWhoTakesNothingIsOver) {
  EXPECT_EQ(TimeLeft({.began = kBegan, .moved = kBegan}), kPatience);
}

// A slow link: 4 MiB at 16 KiB a second are four minutes.
TEST(WriteDeadline, GoesOnAsLongAsBytesAreTakenAtThePace) {
  for (int second = 0; second < 256; ++second) {
    const WriteProgress progress = {.began = kBegan,
                                    .moved = kBegan + seconds(second),
                                    .taken = size_t{16384} * static_cast<size_t>(second)};
    ASSERT_GE(TimeLeft(progress), seconds(second) + kPatience);
  }
}

TEST(WriteDeadline, OfOneWhoStopsIsOverHoweverMuchWasTaken) {
  EXPECT_EQ(TimeLeft({.began = kBegan, .moved = kBegan + seconds(3), .taken = 100 * kPace}),
            seconds(3) + kPatience);
}

// A byte now and then keeps no room without end.
TEST(WriteDeadline, OfOneWhoTricklesIsOver) {
  EXPECT_EQ(TimeLeft({.began = kBegan, .moved = kBegan + seconds(29), .taken = kPace}),
            seconds(1) + kPatience);
}

}  // namespace
}  // namespace muster::http
