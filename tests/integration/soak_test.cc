// Round after round of a counting job, in which workers, servers and the coordinator are killed and
// paused at random and the disk is full for a while. Each round must end with the bits of an
// undisturbed one and a ledger that adds up; and nobody may go back to a checkpoint while a worker
// lives that has the state: one worker of each round is left alone, so there always is one, unless
// servers hold part of it and one of them was killed.
//
// For as long as MUSTER_SOAK_MINUTES says; a single round without it. MUSTER_SOAK_SEED is the seed
// of the first round. `./dev test soak --minutes 60` sets both.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/small_disk.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 4;
constexpr int kLanes = 12;
constexpr int kSamples = 1009;  // a prime: 64 steps in each epoch of batches of 16, the last short
constexpr int kStepsOfEpoch = 64;
constexpr double kRoundSeconds = 20;
constexpr size_t kDiskMiB = 64;
constexpr int kMostFailures = 5;  // rounds; then enough is known

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value))
    ADD_FAILURE() << name << " must be a number, not " << text;
  return value;
}

// Expectations of this test that were not met so far.
int Findings() {
  return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

struct Tally {
  int rounds = 0;
  int kills = 0;
  int pauses = 0;
  int full_disks = 0;
  int64_t steps = 0;
  int64_t recoveries = 0;
  int64_t rewinds = 0;  // for the loss of a server
  int failures = 0;     // rounds
};

std::string Line(const Tally& tally) {
  return absl::StrFormat(
      "%d rounds, %d steps; %d kills, %d pauses, %d full disks; %d recoveries, %d rewinds for the "
      "loss of a server; %d rounds failed",
      tally.rounds, tally.steps, tally.kills, tally.pauses, tally.full_disks, tally.recoveries,
      tally.rewinds, tally.failures);
}

// What happens to whom in one round, as its seed says.
struct RoundPlan {
  RoundPlan(uint64_t seed, bool has_disk) : engine(seed) {
    servers = Below(3) == 0 ? 2 : 0;
    const int spared = static_cast<int>(Below(kWorkers));
    std::vector<std::string> others = {"coordinator"};
    for (int w = 0; w < kWorkers; ++w)
      if (w != spared) others.push_back(absl::StrCat("worker-", w));
    for (int s = 0; s < servers; ++s) others.push_back(absl::StrCat("server-", s));
    for (const uint64_t count = 2 + Below(8); faults.size() < count;)
      faults.push_back(Fault(others[Below(others.size())]));
    if (has_disk && Below(2) == 0) full_at = Tenths(10, 150);
    full_for = Tenths(5, 40);
  }

  uint64_t Below(uint64_t n) { return engine() % n; }
  double Tenths(uint64_t from, uint64_t to) {
    return static_cast<double>(from + Below(to - from)) / 10;
  }
  std::string Fault(const std::string& process) {
    const double at = Tenths(10, static_cast<uint64_t>(kRoundSeconds * 10));
    const bool kill = Below(3) > 0;
    const double away = Tenths(1, 50);
    has_pauses = has_pauses || !kill;
    const bool for_a_while = !kill || (process == "coordinator" && Below(2) == 0);
    return absl::StrCat("{at_second: ", at, ", ", kill ? "kill: " : "pause: ", process,
                        for_a_while ? absl::StrCat(", for_seconds: ", away) : "", "}");
  }

  std::mt19937_64 engine;
  int servers = 0;
  std::vector<std::string> faults;
  bool has_pauses = false;
  double full_at = 0;   // seconds; 0: never
  double full_for = 0;  // seconds
};

// A disk that is full for a while, from a while from now on.
class FullForAWhile {
 public:
  FullForAWhile(const SmallDisk& disk, double at, double length)
      : thread_([this, &disk, at, length] {
          Wait(at);
          const std::string ballast = disk.Fill();
          was_full_ = !ballast.empty();
          Wait(length);
          std::error_code ignored;
          fs::remove(ballast, ignored);
        }) {}
  ~FullForAWhile() { End(); }
  FullForAWhile(const FullForAWhile&) = delete;
  FullForAWhile& operator=(const FullForAWhile&) = delete;

  bool End() {
    {
      const MutexLock lock(mutex_);
      ending_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) thread_.join();
    return was_full_;
  }

 private:
  void Wait(double seconds) {
    const Time end = RealClock().Now() +
                     std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    MutexLock lock(mutex_);
    while (!ending_ && changed_.WaitUntil(mutex_, end)) {
    }
  }

  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_full_ = false;  // the thread's, until it has ended
  std::thread thread_;
};

class Soak : public testing::Test {
 protected:
  // Steps of a second, as the last round had them, make a round of about kRoundSeconds.
  int Epochs() const {
    return std::clamp(static_cast<int>(steps_each_second_ * kRoundSeconds / kStepsOfEpoch), 4,
                      10'000);
  }

  void RunRound(uint64_t seed) {
    RoundPlan plan(seed, disk_.status().ok());
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", plan.servers, " servers\n",
                              absl::StrJoin(plan.faults, "\n")));
    const std::string dir = absl::StrCat(Root(), "/round-", seed);
    const int epochs = Epochs();
    TrainOptions options{.spec = CountingSpec(kSamples, kLanes, epochs),
                         .dir = dir,
                         .workers = kWorkers,
                         .servers = plan.servers,
                         .faults = plan.faults,
                         // One may be killed each time before it has trained.
                         .settings = {"retries=100"}};
    std::optional<FullForAWhile> disk;
    if (plan.full_at > 0) disk.emplace(disk_, plan.full_at, plan.full_for);
    const Clock::time_point start = Clock::now();
    const TrainRun run = Train(options);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (disk && disk->End()) ++tally_.full_disks;
    Count(run, seconds);
    ASSERT_TRUE(run.result.is_object()) << run.Trace();
    ExpectSameBits(run, dir, CountingDigest(kSamples, static_cast<float>(epochs)));
    // A worker that stood still may have run lanes that were others' by then.
    if (!plan.has_pauses) ExpectLanesAddUp(run, dir, kLanes);
    if (plan.servers == 0) {
      ExpectNoWayBack(run, dir);
    } else {
      int servers_lost = 0;
      for (int s = 0; s < plan.servers; ++s)
        servers_lost += static_cast<int>(run.Pids(absl::StrCat("server-", s)).size()) - 1;
      EXPECT_LE(run.result.value("rewinds", -1), servers_lost) << run.Trace();
    }
    if (!HasFailure()) fs::remove_all(dir);
  }

  void Count(const TrainRun& run, double seconds) {
    ++tally_.rounds;
    for (const nlohmann::json& fault : run.Events("fault")) {
      const std::string text = fault.value("text", "");
      tally_.kills += absl::StrContains(text, "kills") ? 1 : 0;
      tally_.pauses += absl::StrContains(text, "pauses") ? 1 : 0;
    }
    if (!run.result.is_object()) return;
    const int64_t steps = run.result.value("steps", int64_t{0});
    tally_.steps += steps;
    tally_.recoveries += static_cast<int64_t>(run.Events("recovery").size());
    tally_.rewinds += run.result.value("rewinds", int64_t{0});
    if (steps > 0) steps_each_second_ = static_cast<double>(steps) / seconds;
  }

  std::string Root() const { return disk_.status().ok() ? disk_.path() : folder_ / "rounds"; }

  const Folder folder_;
  const SmallDisk disk_{folder_ / "disk", kDiskMiB};
  Tally tally_;
  double steps_each_second_ = 100;  // until one was measured
};

TEST_F(Soak, EveryRoundHasTheBitsOfAnUndisturbedOne) {
  if (!disk_.status().ok()) std::cout << "no full disks here: " << disk_.status() << std::endl;
  const int minutes = FromEnvironment("MUSTER_SOAK_MINUTES", 0);
  uint64_t seed = static_cast<uint64_t>(FromEnvironment("MUSTER_SOAK_SEED", 1));
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + std::chrono::minutes(minutes);
  do {
    const int found = Findings();
    RunRound(seed++);
    tally_.failures += Findings() > found ? 1 : 0;
    const auto left = std::chrono::duration_cast<std::chrono::minutes>(end - Clock::now());
    std::cout << Line(tally_) << "; " << std::max<int64_t>(left.count(), 0) << " min left"
              << std::endl;
  } while (Clock::now() < end && tally_.failures < kMostFailures);
}

}  // namespace
}  // namespace muster::integration
