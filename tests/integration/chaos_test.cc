// Several things go wrong in one run: kills of random processes, all of them at once, a process
// that stands still for longer than its lease.
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

class RandomKillsTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomKillsTest, SameBits) {
  std::mt19937_64 engine(GetParam());
  const auto below = [&](int n) { return static_cast<int>(engine() % static_cast<uint64_t>(n)); };
  const int servers = 2 * static_cast<int>(GetParam() % 2);
  std::vector<std::string> processes = {"coordinator"};
  for (int w = 0; w < kWorkers; ++w) processes.push_back(absl::StrCat("worker-", w));
  for (int s = 0; s < servers; ++s) processes.push_back(absl::StrCat("server-", s));
  std::vector<std::string> faults;
  for (int i = 0; i < 4; ++i)
    faults.push_back(absl::StrCat(
        "{at_step: ", 2 + 40 * i + below(40), ", kill: ",
        processes[static_cast<size_t>(below(static_cast<int>(processes.size())))], "}"));
  SCOPED_TRACE(absl::StrCat(servers, " servers; ", testing::PrintToString(faults)));
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  const std::string dir = folder / "disturbed";
  const TrainRun run =
      Train({.spec = spec, .dir = dir, .workers = kWorkers, .servers = servers, .faults = faults});
  EXPECT_GE(run.Events("fault").size(), 3u)
      << run.Story();  // one may wait for a process that is being started
  ExpectSameBits(run, dir, undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomKillsTest,
                         testing::Range<uint64_t>(MUSTER_FIRST_SEED,
                                                  MUSTER_FIRST_SEED + MUSTER_SEEDS));

#if MUSTER_FIRST_SEED == 1

class AllKilledTest : public testing::TestWithParam<int> {};

TEST_P(AllKilledTest, GoesOnFromTheNewestCheckpoint) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, 24);
  const std::string undisturbed = UndisturbedDigest(spec, folder / "undisturbed");
  TrainOptions options{
      .spec = spec, .dir = folder / "disturbed", .workers = kWorkers, .servers = GetParam()};
  options.kill_all_at = [](const nlohmann::json& event) {
    return event.value("event", "") == "checkpoint";
  };
  const TrainRun killed = Train(options);
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.Story();
  options.kill_all_at = nullptr;
  const TrainRun resumed = Train(options);
  ExpectSameBits(resumed, options.dir, undisturbed);
  // Also what shows, everywhere else, that nobody read one.
  EXPECT_TRUE(AMemberSays(options.dir, "reads the checkpoint of step")) << resumed.Story();
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
  ASSERT_TRUE(run.Fired("server-1", "summed_unreplied")) << run.Story();
  ExpectSameBits(run, dir, undisturbed);
  EXPECT_EQ(run.result.value("rewinds", -1), 1) << run.Story();
  ExpectLanesAddUp(run, dir, kLanes);
}

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
  EXPECT_EQ(run.Events("fault").size(), 2u) << run.Story();
  ExpectSameBits(run, dir, undisturbed);
  ExpectNoWayBack(run, dir);
  EXPECT_EQ(run.Events("recovery").size(), 1u) << run.Story();
  EXPECT_EQ(run.Pids("worker-0").size(), 1u) << run.Story();
  EXPECT_EQ(run.Pids("worker-2").size(), 1u) << run.Story();
}

#endif

}  // namespace
}  // namespace muster::integration
