// One process is killed at one place of the protocol; the rest is drawn from a seed. The bits are
// those of one worker that nobody disturbed.
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

constexpr int kSteps = 12;
// Enough for a killed worker to come back and be given its state.
constexpr int kStepsForAReturn = 200;

enum class Syncs { kBoth, kAllreduce };

// When the point lies: in the first life of the victim while all is well, or in the recovery from
// the loss of another, or in the return of the victim itself.
enum class When { kInAStep, kInARecovery, kInAReturn };

struct Place {
  std::string point;
  When when = When::kInAStep;
  Syncs syncs = Syncs::kBoth;
  int passes = 8;  // how many passes it is drawn from, the first of which is
  int pass = 1;
};

struct Case {
  Place place;
  uint64_t seed = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.place.point << ", seed " << c.seed; }

class Draw {
 public:
  explicit Draw(const Case& c)
      : engine_(c.seed * 1000003 + std::hash<std::string>()(c.place.point)) {}
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }

 private:
  std::mt19937_64 engine_;
};

struct Settings {
  int lanes = 6;
  int workers = 3;
  int servers = 0;
  int pass = 1;
  int victim = 0;
  int steps = kSteps;

  int LanesEach() const { return lanes / workers; }
  std::string Victim() const { return absl::StrCat("worker-", victim); }
  // Lost first, in a recovery.
  std::string Other() const { return absl::StrCat("worker-", (victim + 1) % workers); }
  std::string Text() const {
    return absl::StrCat(lanes, " lanes, ", workers, " workers, ", servers, " servers, ", Victim(),
                        " at pass ", pass);
  }
};

Settings DrawSettings(const Case& c) {
  Draw draw(c);
  // Every worker has as many lanes as any other in every step, or what a loss costs would depend on
  // the step: a view's first step shares 6 lanes out to 2 workers as 2 and 4.
  constexpr int kShapes[][2] = {{4, 2}, {4, 4}, {6, 3}};
  const auto& shape = kShapes[c.place.when == When::kInAStep ? draw.Below(3) : 2];
  Settings s{.lanes = shape[0], .workers = shape[1]};
  s.servers = c.place.syncs == Syncs::kBoth ? 2 * draw.Below(2) : 0;
  s.pass = c.place.pass + draw.Below(c.place.passes);
  s.victim = draw.Below(s.workers);
  // Rank 0 makes the first state and is everybody's donor before there is anything to recover.
  if (c.place.point == "donor") s.victim = 1 + draw.Below(s.workers - 1);
  if (c.place.when != When::kInAStep) s.steps = kStepsForAReturn;
  return s;
}

// What comes before a point of a recovery or a return. With two lanes each: the first lane of the
// fifth step.
constexpr char kFirstLoss[] = "forward:9";
constexpr int64_t kFirstLossStep = 4;
constexpr int64_t kFirstLossBegan = 1;

std::vector<std::string> FaultsOf(const Case& c, const Settings& s) {
  const std::string at =
      absl::StrCat("{at_point: \"", c.place.point, ":", s.pass, "\", kill: ", s.Victim(), "}");
  const auto first = [](const std::string& who) {
    return absl::StrCat("{at_point: \"", kFirstLoss, "\", kill: ", who, "}");
  };
  switch (c.place.when) {
    case When::kInAStep: return {at};
    case When::kInARecovery: return {first(s.Other()), at};
    case When::kInAReturn: return {first(s.Victim()), at};
  }
  return {};
}

// Where in its own lanes the victim dies: the last step of which it has begun a lane, and how many.
// A lane counts before it runs.
struct Death {
  int64_t step = 0;
  int64_t lanes = 0;
};
constexpr int64_t kTensors = 17;         // of LanguageSpec's model
constexpr int64_t kCheckpointEvery = 4;  // of LanguageSpec

// Where point and pass say it alone.
std::optional<Death> DeathAt(const std::string& point, const Settings& s) {
  const int64_t k = s.LanesEach(), before = s.pass - 1;
  if (point == "forward") return Death{before / k, before % k + 1};
  if (point == "last_backward") return Death{before / kTensors, k};
  if (point == "half_sent" || point == "half_received" || point == "before_apply")
    return Death{before, k};
  // The thread that runs lanes copies the part before it goes on.
  if (point == "part_copied") return Death{kCheckpointEvery * s.pass - 1, k};
  return std::nullopt;
}

// How many lanes may be run again because of a kill at that point while all is well, from the
// protocol alone; none where it follows from more than point and pass. Two numbers where a race
// decides: with `allreduce` the victim owns chunks, and when it dies its newest results may or may
// not have left it.
std::set<int64_t> LanesAgain(const std::string& point, const Settings& s) {
  const int64_t k = s.LanesEach();
  const bool owner = s.servers == 0;
  const std::optional<Death> death = DeathAt(point, s);
  // Nobody has all sums of the step without the victim, so what it had begun is run again. As an
  // owner it may be a step ahead of all others: then all its lanes of the step before, too.
  if (point == "forward" || point == "last_backward" || point == "half_sent") {
    if (owner && death->step > 0) return {death->lanes, death->lanes + k};
    return {death->lanes};
  }
  if (point == "summed_unreplied") return {k, 2 * k};
  // Everything has been summed, for otherwise there would be no result (servers answer only when
  // they know the norm): what is run again is for the victim's own sums alone.
  if (point == "half_received" || point == "before_apply" || point == "part_copied")
    return owner ? std::set<int64_t>{0, k} : std::set<int64_t>{0};
  return {};
}

// The same where point and pass do not say it, from where the victim's counter shows it dead, the
// step that the survivors go on with, and the k lanes that each had in a step.
std::set<int64_t> LanesAgain(const Death& death, int64_t base, int64_t k, bool owner) {
  if (death.step < base) return {0};
  // A step ahead, with the only sums of the step before; of servers others have them.
  if (owner && death.step > base) return {k + death.lanes};
  if (death.lanes < k) return {death.lanes};
  return {0, k};  // its last sums have left it, or not
}

// The same for kFirstLoss, which others recover from before anything else goes wrong.
std::set<int64_t> LanesAgainAfterFirstLoss(const Settings& s) {
  if (s.servers > 0) return {kFirstLossBegan};
  return {kFirstLossBegan, kFirstLossBegan + s.LanesEach()};
}

Death DeathOf(const std::string& dir, const std::string& worker) {
  const std::vector<LaneCount> lives = LanesRun(dir)[worker];
  if (lives.empty()) return {-1, -1};
  return {lives[0].step.value(), lives[0].in_step};
}

// The step that the survivors of the n-th loss went on with; -1: there was none.
int64_t BaseAfter(const TrainRun& run, size_t n) {
  const std::vector<nlohmann::json> recoveries = run.Events("recovery");
  return n < recoveries.size() ? recoveries[n].value("step", int64_t{-1}) : -1;
}

std::set<int64_t> Sums(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  std::set<int64_t> sums;
  for (const int64_t x : a)
    for (const int64_t y : b) sums.insert(x + y);
  return sums;
}

// The same for a point of a recovery or return, with the loss before it; 6 lanes on 3 workers.
std::set<int64_t> LanesAgainInAll(const Case& c, const Settings& s, const TrainRun& run,
                                  const std::string& dir) {
  const bool owner = s.servers == 0;
  const int64_t k = s.LanesEach();
  // Who returns has run no lane.
  if (c.place.point == "receiver") return LanesAgainAfterFirstLoss(s);
  const Death first = DeathOf(dir, s.Other()), second = DeathOf(dir, s.Victim());
  if (c.place.point != "donor") {
    const int64_t base = BaseAfter(run, 0);
    return Sums(LanesAgain(first, base, k, owner), LanesAgain(second, base, k, owner));
  }
  // One of two, it gives to the first victim when that comes back: at a loss of its own. It has
  // three lanes in each step, but in the first one after the loss two and what it took over.
  const int64_t base = BaseAfter(run, 1);
  const bool first_step = std::min(base, second.step) <= BaseAfter(run, 0);
  std::set<int64_t> again;
  for (int64_t lanes = first_step ? k : k + 1; lanes <= (first_step ? 2 * k : k + 1); ++lanes)
    again.merge(LanesAgain(second, base, lanes, owner));
  return Sums(LanesAgain(first, BaseAfter(run, 0), k, owner), again);
}

// By the counter of lanes, which a kill leaves behind.
void ExpectDied(const std::string& dir, const std::string& worker, const Death& death) {
  const Death found = DeathOf(dir, worker);
  EXPECT_EQ(found.step, death.step) << worker;
  EXPECT_EQ(found.lanes, death.lanes) << worker;
}

// A victim that is a step behind when somebody comes back catches up and gives nothing: then it is
// no donor, and all is done again in a new folder. Three times are enough for any other reason.
TrainRun TrainToPoint(const Case& c, const Settings& s, TrainOptions options, std::string& dir) {
  constexpr int kAttempts = 3;
  TrainRun run;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    options.dir = dir = absl::StrCat(dir, "-", attempt);
    run = Train(options);
    if (c.place.point != "donor" || run.Fired(s.Victim(), c.place.point)) break;
  }
  return run;
}

class KillMatrixTest : public testing::TestWithParam<Case> {};

TEST_P(KillMatrixTest, SameBits) {
  const Case& c = GetParam();
  const Settings s = DrawSettings(c);
  SCOPED_TRACE(s.Text());
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", s.lanes, s.steps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  std::string dir = folder / "disturbed";
  const TrainRun run = TrainToPoint(
      c, s, {.spec = spec, .workers = s.workers, .servers = s.servers, .faults = FaultsOf(c, s)},
      dir);
  ASSERT_TRUE(run.Fired(s.Victim(), c.place.point)) << run.Trace();
  ASSERT_TRUE(run.Killed(s.Victim()));
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, s.lanes);
  for (int w = 0; w < s.workers; ++w) {
    const std::string name = absl::StrCat("worker-", w);
    const bool lost =
        name == s.Victim() || (c.place.when == When::kInARecovery && name == s.Other());
    if (!lost) {
      EXPECT_EQ(run.Pids(name).size(), 1u) << name << "\n" << run.Trace();
    }
  }
  const bool alone = c.place.when == When::kInAStep;
  std::set<int64_t> again = alone ? LanesAgain(c.place.point, s) : LanesAgainInAll(c, s, run, dir);
  if (again.empty())
    again = LanesAgain(DeathOf(dir, s.Victim()), BaseAfter(run, 0), s.LanesEach(), s.servers == 0);
  EXPECT_THAT(again, testing::Contains(run.result.value("lanes_recomputed", int64_t{-1})))
      << run.Trace();
  if (alone) {
    EXPECT_EQ(run.Events("recovery").size(), 1u) << run.Trace();
    if (const std::optional<Death> death = DeathAt(c.place.point, s))
      ExpectDied(dir, s.Victim(), *death);
  } else {
    const bool other = c.place.when == When::kInARecovery;
    ExpectDied(dir, other ? s.Other() : s.Victim(), {kFirstLossStep, kFirstLossBegan});
  }
}

class CoordinatorKillTest : public testing::TestWithParam<Case> {};

TEST_P(CoordinatorKillTest, SameBits) {
  const Case& c = GetParam();
  Settings s = DrawSettings(c);
  SCOPED_TRACE(s.Text());
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", s.lanes, s.steps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  std::vector<std::string> faults = {
      absl::StrCat("{at_point: \"", c.place.point, ":", s.pass, "\", kill: coordinator}")};
  const bool worker_too = c.place.when == When::kInARecovery;
  if (worker_too)
    faults.push_back(absl::StrCat("{at_point: \"", kFirstLoss, "\", kill: ", s.Victim(), "}"));
  const TrainRun run = Train(
      {.spec = spec, .dir = dir, .workers = s.workers, .servers = s.servers, .faults = faults});
  ASSERT_TRUE(run.Fired("coordinator", c.place.point)) << run.Trace();
  EXPECT_GE(run.Pids("coordinator").size(), 2u) << run.Trace();
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, s.lanes);
  EXPECT_THAT(worker_too ? LanesAgainAfterFirstLoss(s) : std::set<int64_t>{0},
              testing::Contains(run.result.value("lanes_recomputed", int64_t{-1})))
      << run.Trace();
  for (int w = 0; w < s.workers; ++w) {
    if (worker_too && w == s.victim) continue;
    EXPECT_EQ(run.Pids(absl::StrCat("worker-", w)).size(), 1u) << run.Trace();
  }
}

std::vector<Case> Cases(const std::vector<Place>& places) {
  std::vector<Case> cases;
  for (uint64_t seed = MUSTER_FIRST_SEED; seed < MUSTER_FIRST_SEED + MUSTER_SEEDS; ++seed)
    for (const Place& place : places) cases.push_back({place, seed});
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat(info.param.place.point, "_seed", info.param.seed);
}

// A server that dies takes the only copy of its checkpoint part with it, so points of servers are
// not for this test. The first pass of a point of recoveries is the forming of the first view. In
// the first step all may be sent at once, if sessions come up late: half_sent begins with the
// second.
INSTANTIATE_TEST_SUITE_P(
    Points, KillMatrixTest,
    testing::ValuesIn(Cases(
        {{.point = "forward"},
         {.point = "last_backward", .passes = 60},
         {.point = "half_sent", .pass = 2},
         {.point = "summed_unreplied", .syncs = Syncs::kAllreduce, .passes = 40},
         {.point = "half_received"},
         {.point = "before_apply"},
         {.point = "part_copied", .syncs = Syncs::kAllreduce, .passes = 2},
         {.point = "segment_written", .syncs = Syncs::kAllreduce, .passes = 2},
         {.point = "sealed_unanswered", .when = When::kInARecovery, .passes = 1, .pass = 2},
         {.point = "base_acknowledged", .when = When::kInARecovery, .passes = 1, .pass = 2},
         {.point = "donor", .when = When::kInARecovery, .syncs = Syncs::kAllreduce, .passes = 1},
         {.point = "receiver", .when = When::kInAReturn, .passes = 2}})),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Points, CoordinatorKillTest,
    testing::ValuesIn(
        Cases({{.point = "persisted_unpublished", .passes = 12},
               {.point = "forming", .when = When::kInARecovery, .passes = 1, .pass = 2},
               {.point = "before_commit", .passes = 2}})),
    NameOf);

}  // namespace
}  // namespace muster::integration
