// Several things go wrong in one run: kills of random processes, all of them at once, a coordinator
// that stays away, a process that stands still for longer than its lease.
#include <algorithm>
#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

constexpr int kLanes = 6;
constexpr int kWorkers = 3;
constexpr int kSteps = 200;
constexpr size_t kKills = 4;

class RandomKillsTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomKillsTest, SameBits) {
  std::mt19937_64 engine(GetParam());
  const auto below = [&](uint64_t n) { return engine() % n; };
  const int servers = 2 * static_cast<int>(GetParam() % 2);
  std::vector<std::string> processes = {"coordinator"};
  for (int w = 0; w < kWorkers; ++w) processes.push_back(absl::StrCat("worker-", w));
  for (int s = 0; s < servers; ++s) processes.push_back(absl::StrCat("server-", s));
  std::shuffle(processes.begin(), processes.end(), engine);
  std::vector<std::string> faults;  // of one process each: it runs when its time comes
  for (size_t i = 0; i < kKills; ++i)
    faults.push_back(
        absl::StrCat("{at_step: ", 2 + 40 * i + below(40), ", kill: ", processes[i], "}"));
  SCOPED_TRACE(absl::StrCat(servers, " servers; ", testing::PrintToString(faults)));
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  const TrainRun run =
      Train({.spec = spec, .dir = dir, .workers = kWorkers, .servers = servers, .faults = faults});
  EXPECT_EQ(run.Events("fault").size(), kKills) << run.Trace();
  ExpectSameBits(run, dir, undisturbed);
  ExpectLanesAddUp(run, dir, kLanes);
  for (size_t i = 0; i < processes.size(); ++i) {
    EXPECT_EQ(run.Killed(processes[i]), i < kKills) << processes[i] << "\n" << run.Trace();
    if (i >= kKills) {
      EXPECT_EQ(run.Pids(processes[i]).size(), 1u) << processes[i] << "\n" << run.Trace();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomKillsTest,
                         testing::Range<uint64_t>(MUSTER_FIRST_SEED,
                                                  MUSTER_FIRST_SEED + MUSTER_SEEDS));

#if MUSTER_FIRST_SEED == 1

void KillAllAtACheckpoint(TrainOptions options) {
  options.kill_all_at = [](const nlohmann::json& event) {
    return event.value("event", "") == "checkpoint";
  };
  const TrainRun killed = Train(options);
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.Trace();
}

class AllKilledTest : public testing::TestWithParam<int> {};

TEST_P(AllKilledTest, GoesOnFromTheNewestCheckpoint) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, 24);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  TrainOptions options{
      .spec = spec, .dir = folder / "disturbed", .workers = kWorkers, .servers = GetParam()};
  KillAllAtACheckpoint(options);
  const TrainRun resumed = Train(options);
  ExpectSameBits(resumed, options.dir, undisturbed);
  EXPECT_GT(FirstStepOf(resumed), 0) << resumed.Trace();
  ExpectLanesAddUp(resumed, options.dir, kLanes);
  // Also what shows, everywhere else, that nobody read one.
  EXPECT_TRUE(AMemberSays(options.dir, "reads the checkpoint of step")) << resumed.Trace();
}

// Whether the members of the journal are back first, with the numbers that it had, or the command
// comes first; and nobody begins anew.
TEST_P(AllKilledTest, GoesOnWithOtherNumbersOfMembers) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps) + "resume: never\n";
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  TrainOptions options{
      .spec = spec, .dir = folder / "disturbed", .workers = kWorkers, .servers = GetParam()};
  KillAllAtACheckpoint(options);
  options.workers = kWorkers - 1;
  options.servers = GetParam() / 2;
  const TrainRun resumed = Train(options);
  ExpectSameBits(resumed, options.dir, undisturbed);
  EXPECT_GT(FirstStepOf(resumed), 0) << resumed.Trace();
  ExpectLanesAddUp(resumed, options.dir, kLanes);
  EXPECT_EQ(resumed.result.value("workers", 0), kWorkers - 1) << resumed.Trace();
}

INSTANTIATE_TEST_SUITE_P(Servers, AllKilledTest, testing::Values(0, 2));

TEST(ServerTest, ALostServerIsAWayBackToTheNewestCheckpoint) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, 24);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  const TrainRun run = Train({.spec = spec,
                              .dir = dir,
                              .workers = kWorkers,
                              .servers = 2,
                              .faults = {"{at_point: \"summed_unreplied:200\", kill: server-1}"}});
  ASSERT_TRUE(run.Fired("server-1", "summed_unreplied")) << run.Trace();
  ExpectSameBits(run, dir, undisturbed);
  EXPECT_EQ(run.result.value("rewinds", -1), 1) << run.Trace();
  ExpectLanesAddUp(run, dir, kLanes);
}

// How many steps were shown between the kill that a fault plan told and the coordinator's return.
int StepsWithoutCoordinator(const TrainRun& run) {
  int steps = 0;
  bool away = false;
  for (const nlohmann::json& event : run.events) {
    const std::string name = event.value("event", "");
    if (name == "fault") away = true;
    if (name == "process_start" && event.value("process", "") == "coordinator") away = false;
    if (name == "step" && away) ++steps;
  }
  return steps;
}

class AwayTest : public testing::TestWithParam<int> {};

// Steps are shown by the workers' reports to the agent while nobody coordinates.
TEST_P(AwayTest, StepsGoOnWhileTheCoordinatorIsDownForTwenty) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  const TrainRun run = Train({.spec = spec,
                              .dir = dir,
                              .workers = kWorkers,
                              .servers = GetParam(),
                              .faults = {"{at_step: 8, kill: coordinator, for_steps: 20}"}});
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  EXPECT_EQ(run.Pids("coordinator").size(), 2u) << run.Trace();
  EXPECT_GE(StepsWithoutCoordinator(run), 20) << run.Trace();
  for (int w = 0; w < kWorkers; ++w)
    EXPECT_EQ(run.Pids(absl::StrCat("worker-", w)).size(), 1u) << run.Trace();
  EXPECT_EQ(run.result.value("views", -1), 1) << run.Trace();
  EXPECT_EQ(run.result.value("lanes_recomputed", -1), 0) << run.Trace();
  ExpectLanesAddUp(run, dir, kLanes);
}

INSTANTIATE_TEST_SUITE_P(Servers, AwayTest, testing::Values(0, 2));

// It stands still until the others have gone on without it. What it then says counts for nothing.
TEST(PauseTest, AWorkerThatStoodStillForLongerThanItsLeaseIsLostOnce) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  const TrainRun run = Train({.spec = spec,
                              .dir = dir,
                              .workers = kWorkers,
                              .faults = {"{at_step: 8, pause: worker-1, for_steps: 4}"}});
  EXPECT_EQ(run.Events("fault").size(), 2u) << run.Trace();
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  EXPECT_EQ(run.Events("recovery").size(), 1u) << run.Trace();
  EXPECT_EQ(run.Pids("worker-0").size(), 1u) << run.Trace();
  EXPECT_EQ(run.Pids("worker-2").size(), 1u) << run.Trace();
}

#endif

}  // namespace
}  // namespace muster::integration
