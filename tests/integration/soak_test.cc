// Round after round of a counting job, in which processes are killed and paused at random and the
// disk is full for a while. Each round must end with the bits of an undisturbed one and a ledger
// that adds up; and nobody may go back to a checkpoint while the state lives. There are two kinds
// of rounds in which a worker with the state lives at every moment:
// - Workers, servers and the coordinator are killed and paused, but one worker is left alone. Only
//   the loss of a server, which holds part of the state, is a reason to go back.
// - Any worker is killed as soon as the one before is back with the state, and the coordinator in
//   between, about 25 times in all. Nothing is a reason to go back.
//
// For as long as MUSTER_SOAK_MINUTES says; a single round without it. MUSTER_SOAK_SEED is the seed
// of the first round. `./dev test soak --minutes 60` sets both.
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
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
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/http/client.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/run_trust.h"
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
constexpr double kRoundSecondsOneByOne = 40;
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
    one_by_one = Below(2) == 0;
    if (!one_by_one) DrawFaults();
    if (has_disk && Below(2) == 0) full_at = Tenths(10, 150);
    full_for = Tenths(5, 40);
  }

  double seconds() const { return one_by_one ? kRoundSecondsOneByOne : kRoundSeconds; }
  void DrawFaults() {
    const int spared = static_cast<int>(Below(kWorkers));
    std::vector<std::string> others = {"coordinator"};
    for (int w = 0; w < kWorkers; ++w)
      if (w != spared) others.push_back(absl::StrCat("worker-", w));
    for (int s = 0; s < servers; ++s) others.push_back(absl::StrCat("server-", s));
    for (const uint64_t count = 2 + Below(8); faults.size() < count;)
      faults.push_back(Fault(others[Below(others.size())]));
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
  bool one_by_one = false;          // kills are chosen while it runs
  std::vector<std::string> faults;  // else
  bool has_pauses = false;
  double full_at = 0;   // seconds; 0: never
  double full_for = 0;  // seconds
};

// Kills workers, any of them, and between them the coordinator. The next worker is killed once the
// coordinator says that all take part in its view, with a fresh process of the one that was killed
// before: so all hold the state, and all but one of them live on. Told every event by the thread
// that reads them.
class KillsOneByOne {
 public:
  explicit KillsOneByOne(uint64_t seed) : engine_(seed) {}

  void Note(const nlohmann::json& event) {
    const std::string name = event.value("event", "");
    const std::string process = event.value("process", "");
    if (name == "start") Begin(event);
    if (name == "process_start") pids_[process] = event.value("pid", 0);
    if (name == "process") pids_.erase(process);
    if (name == "done") ends_ = Clock::time_point();
    const Clock::time_point now = Clock::now();
    if (now < ends_) KillWhoIsDue(now);
  }
  int kills() const { return kills_; }

 private:
  static constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

  void Begin(const nlohmann::json& start) {
    folder_ = start.value("folder", "");
    job_url_ = absl::StrCat(start.value("url", ""), "/v1/jobs/", start.value("job", ""));
    const Clock::time_point now = Clock::now();
    ends_ = now + std::chrono::seconds(static_cast<int>(kRoundSecondsOneByOne));
    coordinator_at_ = now + Between(1000, 7000);
  }

  void KillWhoIsDue(Clock::time_point now) {
    if (now >= coordinator_at_) {
      Kill("coordinator");
      coordinator_at_ = now + Between(1000, 7000);
    }
    if (now < look_at_) return;
    look_at_ = now + kBetweenLooks;
    const std::map<std::string, std::string> holders = HoldersOfTheState();
    if (holders.size() < kWorkers) return;
    if (!worker_at_) worker_at_ = now + Between(0, 1000);
    if (now < *worker_at_) return;
    const auto victim = std::next(holders.begin(), static_cast<int>(engine_() % holders.size()));
    if (!Kill(victim->first)) return;
    killed_[victim->first] = victim->second;
    worker_at_.reset();
  }

  // By name, the incarnations of those workers that a view which is active names, without those
  // that we killed. None while the coordinator does not answer.
  std::map<std::string, std::string> HoldersOfTheState() const {
    http::ClientOptions options = ClientOf(folder_);
    options.timeout = std::chrono::seconds(2);
    const auto answer = http::Get(job_url_, options);
    if (!answer.ok()) return {};
    const auto job = nlohmann::json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
    if (!job.is_object() || !job.contains("members")) return {};
    std::map<std::string, std::string> holders;
    for (const nlohmann::json& member : job["members"]) {
      const std::string name = member.value("name", "");
      const std::string incarnation = member.value("incarnation", "");
      const auto killed = killed_.find(name);
      const bool is_gone = killed != killed_.end() && killed->second == incarnation;
      if (member.value("role", "") == "worker" && member.value("state", "") == "active" && !is_gone)
        holders[name] = incarnation;
    }
    return holders;
  }

  bool Kill(const std::string& process) {
    const auto pid = pids_.find(process);
    if (pid == pids_.end() || kill(pid->second, SIGKILL) != 0) return false;
    pids_.erase(pid);
    ++kills_;
    return true;
  }

  std::chrono::milliseconds Between(int64_t from, int64_t to) {
    return std::chrono::milliseconds(from + static_cast<int64_t>(engine_() % (to - from)));
  }

  std::mt19937_64 engine_;
  std::string folder_;  // of the run
  std::string job_url_;
  std::map<std::string, int> pids_;            // of those that run
  std::map<std::string, std::string> killed_;  // by name, the incarnation that was killed last
  Clock::time_point ends_;                     // nobody is killed after it, nor before it is set
  Clock::time_point coordinator_at_, look_at_;
  std::optional<Clock::time_point> worker_at_;  // none: the one before is not back
  int kills_ = 0;
};

// Rewinds for which no server was lost. From when a view is active there is a state, until a
// server's process ends. Told every event by the thread that reads them.
class UnexcusedRewinds {
 public:
  void Note(const nlohmann::json& event) {
    const std::string name = event.value("event", "");
    const Clock::time_point now = Clock::now();
    if (name == "process" && absl::StartsWith(event.value("process", ""), "server-")) {
      lost_at_ = now;
    } else if (name == "recovery" && event.contains("rewind")) {
      if (!lost_at_) found_.push_back(event.dump());
    } else if (event.contains("lineage") && lost_at_ && now - *lost_at_ > kOnTheWay) {
      lost_at_.reset();  // a view is active
    }
  }
  const std::vector<std::string>& found() const { return found_; }

 private:
  // Ends of processes are told by the agent, views by the coordinator. One that is told so soon
  // after the other may be the earlier one.
  static constexpr auto kOnTheWay = std::chrono::seconds(5);

  std::optional<Clock::time_point> lost_at_;  // a server; no view was active since
  std::vector<std::string> found_;
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
  // Steps of a second, as the last round of its kind had them, make a round as long as it is to be.
  int Epochs(const RoundPlan& plan) const {
    const double steps = steps_each_second_.at(plan.one_by_one) * plan.seconds();
    return std::clamp(static_cast<int>(steps / kStepsOfEpoch), 4, 10'000);
  }

  void RunRound(uint64_t seed) {
    RoundPlan plan(seed, disk_.status().ok());
    SCOPED_TRACE(
        absl::StrCat("seed ", seed, ", ", plan.servers, " servers\n",
                     plan.one_by_one ? "workers one by one" : absl::StrJoin(plan.faults, "\n")));
    const std::string dir = absl::StrCat(Root(), "/round-", seed);
    const int epochs = Epochs(plan);
    KillsOneByOne kills(seed);
    UnexcusedRewinds unexcused;
    TrainOptions options{.spec = CountingSpec(kSamples, kLanes, epochs),
                         .dir = dir,
                         .workers = kWorkers,
                         .servers = plan.servers,
                         .faults = plan.faults,
                         // One may be killed each time before it has trained.
                         .settings = {"restarts=100"},
                         .on_event =
                             [&](const nlohmann::json& event) {
                               unexcused.Note(event);
                               if (plan.one_by_one) kills.Note(event);
                             },
                         // Its length was guessed from a round that may have had a faster machine.
                         .hangs_after = std::chrono::minutes(10)};
    std::optional<FullForAWhile> disk;
    if (plan.full_at > 0) disk.emplace(disk_, plan.full_at, plan.full_for);
    const Clock::time_point start = Clock::now();
    const TrainRun run = Train(options);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (disk && disk->End()) ++tally_.full_disks;
    tally_.kills += kills.kills();
    Count(run, plan, seconds);
    ASSERT_TRUE(run.result.is_object()) << run.Trace();
    ExpectSameBits(run, dir, CountingDigest(kSamples, static_cast<float>(epochs)));
    // A worker that stood still may have run lanes that were others' by then.
    if (!plan.has_pauses) ExpectLanesAddUp(run, dir, kLanes);
    EXPECT_THAT(unexcused.found(), testing::IsEmpty()) << run.Trace();
    int servers_lost = 0;
    for (int s = 0; s < plan.servers; ++s)
      servers_lost += static_cast<int>(run.Pids(absl::StrCat("server-", s)).size()) - 1;
    // What the coordinator decided just before it was killed has no event.
    EXPECT_LE(run.result.value("rewinds", -1), servers_lost) << run.Trace();
    if (servers_lost == 0) ExpectNoWayBack(run, dir);
    if (!HasFailure()) fs::remove_all(dir);
  }

  void Count(const TrainRun& run, const RoundPlan& plan, double seconds) {
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
    if (steps > 0) steps_each_second_.at(plan.one_by_one) = static_cast<double>(steps) / seconds;
  }

  std::string Root() const { return disk_.status().ok() ? disk_.path() : folder_ / "rounds"; }

  const Folder folder_;
  const SmallDisk disk_{folder_ / "disk", kDiskMiB};
  Tally tally_;
  std::array<double, 2> steps_each_second_ = {100, 50};  // until one was measured; one by one: [1]
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
