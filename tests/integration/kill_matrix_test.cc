// One process is killed at one place of the protocol; the rest is drawn from a seed. The bits are
// those of one worker that nobody disturbed.
#include <algorithm>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
  int passes = 8;  // the pass is drawn from 1 … this; 0: `pass` is fixed
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
  s.pass = c.place.passes > 0 ? 1 + draw.Below(c.place.passes) : c.place.pass;
  s.victim = draw.Below(s.workers);
  // Rank 0 makes the first state and is everybody's donor before there is anything to recover.
  if (c.place.point == "donor") s.victim = 1 + draw.Below(s.workers - 1);
  if (c.place.when != When::kInAStep) s.steps = kStepsForAReturn;
  return s;
}

std::vector<std::string> FaultsOf(const Case& c, const Settings& s) {
  const std::string at =
      absl::StrCat("{at_point: \"", c.place.point, ":", s.pass, "\", kill: ", s.Victim(), "}");
  const auto first = [](const std::string& who) {
    return absl::StrCat("{at_point: \"forward:9\", kill: ", who, "}");
  };
  switch (c.place.when) {
    case When::kInAStep: return {at};
    case When::kInARecovery: return {first(s.Other()), at};
    case When::kInAReturn: return {first(s.Victim()), at};
  }
  return {};
}

// How many lanes of the open step a victim of this point has run, where the point alone says so.
std::optional<int64_t> Predicted(const std::string& point, const Settings& s) {
  if (point == "forward") return (s.pass - 1) % s.LanesEach() + 1;
  // Something that all need was not sent, or not answered: all its lanes of the step.
  if (point == "last_backward" || point == "half_sent" || point == "summed_unreplied")
    return s.LanesEach();
  return std::nullopt;
}

// How many lanes it costs by what the victim had run and where the others went on.
int64_t CostOf(const TrainRun& run, const LaneCount& victim) {
  const nlohmann::json recovery = run.Events("recovery").at(0);
  const int64_t base = recovery.value("step", int64_t{-1});
  const int64_t moved = recovery.value("lanes", int64_t{0});
  if (victim.step.value() == base) return std::min(victim.in_step, moved);
  return victim.step.value() > base ? moved + victim.in_step : 0;
}

class KillMatrixTest : public testing::TestWithParam<Case> {};

TEST_P(KillMatrixTest, SameBits) {
  const Case& c = GetParam();
  const Settings s = DrawSettings(c);
  SCOPED_TRACE(s.Text());
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", s.lanes, s.steps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  const TrainRun run = Train({.spec = spec,
                              .dir = dir,
                              .workers = s.workers,
                              .servers = s.servers,
                              .faults = FaultsOf(c, s)});
  ASSERT_TRUE(run.Fired(s.Victim(), c.place.point)) << run.Story();
  ASSERT_TRUE(run.Killed(s.Victim()));
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, s.lanes);
  for (int w = 0; w < s.workers; ++w) {
    const std::string name = absl::StrCat("worker-", w);
    const bool lost =
        name == s.Victim() || (c.place.when == When::kInARecovery && name == s.Other());
    if (!lost) {
      EXPECT_EQ(run.Pids(name).size(), 1u) << name << "\n" << run.Story();
    }
  }
  if (c.place.when != When::kInAStep) return;
  ASSERT_EQ(run.Events("recovery").size(), 1u) << run.Story();
  const LaneCount victim = LanesRun(dir)[s.Victim()].at(0);
  if (const std::optional<int64_t> predicted = Predicted(c.place.point, s)) {
    EXPECT_EQ(victim.in_step, *predicted) << run.Story();
  }
  // As an owner the victim may have been a step ahead, with results that nobody else had: then that
  // step goes too.
  EXPECT_EQ(run.result.value("lanes_recomputed", int64_t{-1}), CostOf(run, victim)) << run.Story();
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
    faults.push_back(absl::StrCat("{at_point: \"forward:9\", kill: ", s.Victim(), "}"));
  const TrainRun run = Train(
      {.spec = spec, .dir = dir, .workers = s.workers, .servers = s.servers, .faults = faults});
  ASSERT_TRUE(run.Fired("coordinator", c.place.point)) << run.Story();
  EXPECT_GE(run.Pids("coordinator").size(), 2u) << run.Story();
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, s.lanes);
  for (int w = 0; w < s.workers; ++w) {
    if (worker_too && w == s.victim) continue;
    EXPECT_EQ(run.Pids(absl::StrCat("worker-", w)).size(), 1u) << run.Story();
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

// A server that dies takes the only copy of its share with it, so points of servers are not for
// this test. The first pass of a point of recoveries is the forming of the first view.
INSTANTIATE_TEST_SUITE_P(
    Points, KillMatrixTest,
    testing::ValuesIn(Cases(
        {{.point = "forward"},
         {.point = "last_backward", .passes = 60},
         {.point = "half_sent"},
         {.point = "summed_unreplied", .syncs = Syncs::kAllreduce, .passes = 40},
         {.point = "half_received"},
         {.point = "before_apply"},
         {.point = "share_copied", .syncs = Syncs::kAllreduce, .passes = 2},
         {.point = "segment_written", .syncs = Syncs::kAllreduce, .passes = 2},
         {.point = "sealed_unanswered", .when = When::kInARecovery, .passes = 0, .pass = 2},
         {.point = "base_acknowledged", .when = When::kInARecovery, .passes = 0, .pass = 2},
         {.point = "donor", .when = When::kInARecovery, .syncs = Syncs::kAllreduce, .passes = 1},
         {.point = "receiver", .when = When::kInAReturn, .passes = 2}})),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Points, CoordinatorKillTest,
    testing::ValuesIn(
        Cases({{.point = "persisted_unpublished", .passes = 12},
               {.point = "forming", .when = When::kInARecovery, .passes = 0, .pass = 2},
               {.point = "before_commit", .passes = 2}})),
    NameOf);

}  // namespace
}  // namespace muster::integration
