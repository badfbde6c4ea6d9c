// The general seed loop, and the planted bugs that it must find.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/sim/seeds.h"

namespace muster::sim {
namespace {

void Add(Counts& sum, const Counts& one) {
  sum.heals += one.heals;
  sum.catch_ups += one.catch_ups;
  sum.rewinds += one.rewinds;
  sum.torn += one.torn;
  sum.restarts_in_forming += one.restarts_in_forming;
  sum.second_failures += one.second_failures;
  sum.steps += one.steps;
  sum.events += one.events;
  sum.stops += one.stops;
  sum.failed_checkpoints += one.failed_checkpoints;
  sum.lanes_checked += one.lanes_checked;
  sum.lanes_recomputed += one.lanes_recomputed;
}

Counts RunSeeds(uint64_t first, uint64_t count) {
  Counts sum;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    World world(OptionsOf(seed));
    const bool held = world.Run();
    EXPECT_TRUE(held) << "seed " << seed << ": " << world.violation() << "\n(its story: sim_trace "
                      << seed << ")";
    if (!held) break;
    Add(sum, world.counts());
  }
  std::cout << sum.steps << " steps, " << sum.events << " events; heals " << sum.heals
            << ", catch-ups " << sum.catch_ups << ", rewinds " << sum.rewinds
            << ", torn deliveries " << sum.torn << ", coordinator restarts in forming "
            << sum.restarts_in_forming << ", second failures in forming " << sum.second_failures
            << ", stops " << sum.stops << ", failed checkpoints " << sum.failed_checkpoints << ", "
            << sum.lanes_recomputed << " lanes run again in the " << sum.lanes_checked
            << " runs where they are counted\n";
  return sum;
}

void ExpectCoverage(const Counts& counts) {
  EXPECT_GE(counts.heals, 100);
  EXPECT_GE(counts.rewinds, 100);
  EXPECT_GE(counts.torn, 100);
  EXPECT_GE(counts.restarts_in_forming, 100);
  EXPECT_GE(counts.second_failures, 100);
  EXPECT_GE(counts.stops, 50);
  EXPECT_GE(counts.failed_checkpoints, 100);
  EXPECT_GE(counts.lanes_checked, 300);
  EXPECT_GE(counts.lanes_recomputed, 1000);
}

#ifdef MUSTER_SIM_SLOW
TEST(Sim, TwoThousandSeedsHoldEveryInvariant) { ExpectCoverage(RunSeeds(1000001, 2000)); }
#else
TEST(Sim, SeedsHoldEveryInvariantAndReachEveryCorner) { ExpectCoverage(RunSeeds(1, 400)); }

#endif

}  // namespace
}  // namespace muster::sim
