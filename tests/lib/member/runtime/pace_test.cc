#include "lib/member/runtime/pace.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PaceRules kRules{.share = 0.05, .of_interval = 0.5, .first_interval = seconds(60)};

TEST(RestOf, TakesAShareOfACoreAndNoMoreThanItsPartOfTheInterval) {
  struct Row {
    std::string what;
    PaceProgress progress;
    milliseconds rest;
  };
  const Row rows[] = {
      {"nothing was done", {seconds(0), seconds(0), 0, seconds(60)}, milliseconds(0)},
      {"busy all the time",
       {milliseconds(10), milliseconds(10), 0.1, seconds(60)},
       milliseconds(190)},
      {"it rested already",
       {milliseconds(150), milliseconds(10), 0.1, seconds(60)},
       milliseconds(50)},
      {"the share is kept", {milliseconds(200), milliseconds(10), 0.1, seconds(60)}, {}},
      {"it waited for the disk for longer", {seconds(3), milliseconds(10), 0.1, seconds(60)}, {}},
      {"a short interval shortens rests",
       {milliseconds(10), milliseconds(10), 0.1, seconds(1)},
       milliseconds(40)},
      {"it is late for the interval",
       {milliseconds(700), milliseconds(100), 0.9, seconds(1)},
       milliseconds(0)},
      {"it is early for the interval",
       {milliseconds(100), milliseconds(100), 0.9, seconds(1)},
       milliseconds(350)},
      {"no interval", {milliseconds(100), milliseconds(100), 0.9, seconds(0)}, milliseconds(0)},
  };
  for (const Row& row : rows) {
    const Duration rest = RestOf(kRules, row.progress);
    EXPECT_EQ(std::chrono::round<milliseconds>(rest).count(), row.rest.count()) << row.what;
  }
}

// Whatever a work of a short interval costs, it is written within its part of the interval: rests
// do not make it late.
TEST(RestOf, AWorkThatCanBeDoneInTimeIsDoneInTime) {
  for (const Duration piece : {milliseconds(1), milliseconds(10), milliseconds(49)}) {
    PaceProgress progress;
    progress.interval = seconds(1);
    for (int i = 1; i <= 10; ++i) {
      progress.elapsed += piece;
      progress.busy += piece;
      progress.done = i / 10.0;
      progress.elapsed += RestOf(kRules, progress);
    }
    EXPECT_LE(progress.elapsed, milliseconds(501)) << Seconds(piece);
  }
}

// The rest that is asked for here takes years.
TEST(Pace, WhoIsHurriedDoesNotRest) {
  Pace pace({.share = 1e-12, .first_interval = std::chrono::hours(24 * 1000)});
  pace.Begin(10 * Pace::kPieceBytes);
  pace.HurryWork();
  pace.Did(5 * Pace::kPieceBytes);
  pace.HurryAll(true);
  pace.Begin(10 * Pace::kPieceBytes);
  pace.Did(5 * Pace::kPieceBytes);
}

TEST(Pace, AfterTheLastPieceThereIsNothingToRestFor) {
  Pace pace({.share = 1e-12, .first_interval = std::chrono::hours(24 * 1000)});
  pace.Begin(2 * Pace::kPieceBytes);
  pace.Did(2 * Pace::kPieceBytes);
}

}  // namespace
}  // namespace muster
