// Runs the seeds. The patches in tests/mutants plant what it must find.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/sim/seeds.h"
#include "tests/support/ancestry.h"

namespace muster::sim {
namespace {

using MakeOptions = WorldOptions (*)(uint64_t seed);

// Runs the seeds; the first that breaks an invariant ends it.
Coverage RunSeeds(uint64_t first, uint64_t count, MakeOptions make = OptionsOf) {
  Coverage reached;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    World world(make(seed));
    const bool held = world.Run();
    EXPECT_TRUE(held) << "seed " << seed << ": " << world.violation() << " (its trace: sim_trace "
                      << (make == LaunchOptionsOf     ? "--launches "
                          : make == FollowerOptionsOf ? "--followers "
                          : make == StreamOptionsOf   ? "--streams "
                                                      : "")
                      << seed << ")";
    if (!held) break;
    reached.Add(world.coverage());
  }
  std::cout << reached.ToString();
  return reached;
}

void ExpectCoverage(const Coverage& reached, int64_t seeds, Worlds worlds = Worlds::kOrdinary) {
  if (testing::Test::HasFailure()) return;
  for (const std::string& corner : reached.BelowFloor(seeds, worlds)) ADD_FAILURE() << corner;
}

#ifdef MUSTER_SIM_SLOW
TEST(Seeds, TwoThousandKeepEveryInvariant) { ExpectCoverage(RunSeeds(1000001, 2000), 2000); }

TEST(Followers, TwoThousandKeepEveryInvariant) { RunSeeds(1000001, 2000, FollowerOptionsOf); }

TEST(Launches, FiveHundredKeepEveryInvariant) {
  ExpectCoverage(RunSeeds(1000001, 500, LaunchOptionsOf), 500, Worlds::kLaunches);
}

TEST(Streams, TwoThousandKeepEveryInvariant) {
  ExpectCoverage(RunSeeds(1000001, 2000, StreamOptionsOf), 2000, Worlds::kStreams);
}
#else
TEST(Seeds, KeepEveryInvariant) { ExpectCoverage(RunSeeds(1, 400), 400); }

TEST(Followers, KeepEveryInvariant) { RunSeeds(1, 100, FollowerOptionsOf); }

TEST(Launches, KeepEveryInvariant) {
  ExpectCoverage(RunSeeds(1, 100, LaunchOptionsOf), 100, Worlds::kLaunches);
}

TEST(Streams, KeepEveryInvariant) {
  ExpectCoverage(RunSeeds(1, 150, StreamOptionsOf), 150, Worlds::kStreams);
}

std::vector<StepRecord> RecordsThatCount(const SimJob& job) {
  const coordinator::JobJournal& journal = *job.store.journal;
  return Ancestry(journal.lineages, job.store.Records(), journal.lineages.back().number,
                  job.store.Recorded())
      .value();
}

// Faults do not change what a job makes.
TEST(Twins, AnUndisturbedRunHasTheSameStateAndRecords) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    WorldOptions options = OptionsOf(seed);
    for (JobOptions& job : options.jobs) job.is_deleted = false;  // its twin would be another job
    World disturbed(options);
    ASSERT_TRUE(disturbed.Run()) << disturbed.violation();
    options.smooth = true;
    options.quota = 0;
    options.mistake_at = 0;
    for (JobOptions& job : options.jobs) job.priority = 0;  // nobody is preempted
    World calm(options);
    ASSERT_TRUE(calm.Run()) << calm.violation();
    for (const JobOptions& job : options.jobs) {
      const SimJob &a = disturbed.job(job.id), &b = calm.job(job.id);
      if (a.store.journal->phase != coordinator::JobPhase::kDone) continue;  // cancelled
      EXPECT_EQ(a.store.journal->ending.digest, b.store.journal->ending.digest);
      const auto of_a = RecordsThatCount(a), of_b = RecordsThatCount(b);
      for (size_t s = 0; s < of_a.size(); ++s) {
        EXPECT_EQ(of_a[s].samples, of_b[s].samples) << "step " << s;
        EXPECT_EQ(of_a[s].weight, of_b[s].weight) << "step " << s;
        if (job.order == SumOrder::kCanonical) {
          EXPECT_EQ(of_a[s].loss, of_b[s].loss) << "step " << s;
        }
      }
    }
  }
}

#endif

}  // namespace
}  // namespace muster::sim
