// Every sample counts once per epoch, on any number of workers, undisturbed and with one of them
// killed. Needs no LibTorch, so that sanitizers can look at whole clusters.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

constexpr int kLanes = 7;

struct Shape {
  int workers = 1;
  int servers = 0;
};

std::string NameOf(const testing::TestParamInfo<Shape>& info) {
  return absl::StrCat(info.param.workers, "_workers_", info.param.servers, "_servers");
}

std::vector<Shape> Shapes(int fewest_workers) {
  std::vector<Shape> shapes;
  for (int servers : {0, 2})
    for (int workers = fewest_workers; workers <= 4; ++workers)
      shapes.push_back({workers, servers});
  return shapes;
}

void Expect(const TrainRun& run, const std::string& dir, const std::string& digest) {
  ExpectSameBits(run, dir, digest);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, kLanes);
}

class CountingTest : public testing::TestWithParam<Shape> {};

TEST_P(CountingTest, EveryWeightIsTheNumberOfEpochs) {
  const Shape& s = GetParam();
  const Folder folder;
  const bool small = s.workers % 2 == 0;
  const int samples = small ? 97 : 1009;
  const int epochs = small ? 5 : 2;
  const TrainRun run = Train({.spec = CountingSpec(samples, kLanes, epochs),
                              .dir = folder / "job",
                              .workers = s.workers,
                              .servers = s.servers});
  Expect(run, folder / "job", CountingDigest(samples, static_cast<float>(epochs)));
  EXPECT_EQ(run.result.value("samples", 0), samples * epochs);
  EXPECT_EQ(run.result.value("lanes_recomputed", -1), 0);
  EXPECT_EQ(run.result.value("views", -1), 1) << run.Trace();
  EXPECT_EQ(run.Events("prepares").size(), static_cast<size_t>(s.workers)) << run.Trace();
}

// As an editor does it, or somebody who makes room; several times, as a count that is just being
// written hides one cut: the whole record is there again, and there is nothing to say.
TEST(LaneFileTest, OneThatIsCutOrRemovedCostsNoProcessAndNoLane) {
  const Folder folder;
  const std::string dir = folder / "job";
  constexpr int kTimes = 10;
  int spoiled = 0;
  const auto spoil = [&](const nlohmann::json& event) {
    if (event.value("event", "") != "step" || spoiled == kTimes) return;
    ++spoiled;
    for (const std::filesystem::path& job : std::filesystem::directory_iterator(dir + "/jobs")) {
      std::filesystem::resize_file(job / "run/worker-0.lanes", 0);
      std::filesystem::remove(job / "run/worker-1.lanes");
    }
  };
  const TrainRun run =
      Train({.spec = CountingSpec(1009, kLanes, 20), .dir = dir, .workers = 2, .on_event = spoil});
  ASSERT_EQ(spoiled, kTimes);
  Expect(run, dir, CountingDigest(1009, 20));
  EXPECT_EQ(run.result.value("recoveries", -1), 0) << run.Trace();
  EXPECT_TRUE(AMemberSays(dir, "worker-0.lanes' was cut"));
  EXPECT_TRUE(AMemberSays(dir, "worker-1.lanes' was removed"));
}

class CountingKillTest : public testing::TestWithParam<Shape> {};

TEST_P(CountingKillTest, EveryWeightIsTheNumberOfEpochs) {
  const Shape& s = GetParam();
  const Folder folder;
  const std::string victim = absl::StrCat("worker-", kLanes % s.workers);
  const TrainRun run =
      Train({.spec = CountingSpec(1009, kLanes, 3),
             .dir = folder / "job",
             .workers = s.workers,
             .servers = s.servers,
             .faults = {absl::StrCat("{at_point: \"half_sent:20\", kill: ", victim, "}")}});
  ASSERT_TRUE(run.Fired(victim, "half_sent")) << run.Trace();
  Expect(run, folder / "job", CountingDigest(1009, 3));
  EXPECT_EQ(run.result.value("recoveries", -1), 1) << run.Trace();
}

INSTANTIATE_TEST_SUITE_P(Shapes, CountingTest, testing::ValuesIn(Shapes(1)), NameOf);
// One worker alone would be the only holder of the weights.
INSTANTIATE_TEST_SUITE_P(Shapes, CountingKillTest, testing::ValuesIn(Shapes(2)), NameOf);

}  // namespace
}  // namespace muster::integration
