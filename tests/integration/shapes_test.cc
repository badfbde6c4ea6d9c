// Jobs of other shapes: more workers than lanes, and sums in any order.
#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lib/http/client.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/run_trust.h"

namespace muster::integration {
namespace {

constexpr int kWorkers = 3;

// How many members a job has in each state, as the coordinator tells it.
std::map<std::string, int> StatesOf(const std::string& url, const std::string& dir,
                                    const std::string& job) {
  std::map<std::string, int> states;
  const auto answer = http::Get(absl::StrCat(url, "/v1/jobs/", job), ClientOf(dir));
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return states;
  const auto status = nlohmann::json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  for (const nlohmann::json& member : status.value("members", nlohmann::json::array()))
    ++states[member.value("state", "")];
  return states;
}

// Two lanes on three workers.
class SpareTest : public testing::Test {
 protected:
  static constexpr int kLanes = 2;

  const Folder folder_;
  const std::string spec_ = LanguageSpec(folder_ / "data", kLanes, 100);
};

TEST_F(SpareTest, AWorkerWithoutLanesIsASpareAndTheStatusSaysSo) {
  const std::string digest = UndisturbedDigest(spec_, folder_ / "one");
  const std::string dir = folder_ / "job";
  std::map<std::string, int> states;
  TrainOptions options{.spec = spec_, .dir = dir, .workers = kWorkers};
  std::string url, job;
  options.kill_all_at = [&](const nlohmann::json& event) {  // only looks
    if (event.value("event", "") == "start") {
      url = event.value("url", "");
      job = event.value("job", "");
    }
    if (event.value("event", "") == "step" && states.empty()) states = StatesOf(url, dir, job);
    return false;
  };
  const TrainRun run = Train(options);
  EXPECT_EQ(states, (std::map<std::string, int>{{"active", kLanes}, {"spare", 1}})) << run.Trace();
  ExpectSameBits(run, dir, digest);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, kLanes);
  EXPECT_EQ(run.result.value("workers", -1), kLanes);
  EXPECT_EQ(run.result.value("lanes_recomputed", -1), 0);
}

TEST_F(SpareTest, TheSpareTakesTheLanesOfALostWorker) {
  const std::string digest = UndisturbedDigest(spec_, folder_ / "one");
  const std::string dir = folder_ / "job";
  const TrainRun run = Train({.spec = spec_,
                              .dir = dir,
                              .workers = kWorkers,
                              .faults = {"{at_point: \"forward:5\", kill: worker-0}"}});
  ASSERT_TRUE(run.Fired("worker-0", "forward")) << run.Trace();
  ExpectSameBits(run, dir, digest);
  ExpectNoWayBack(run, dir);
  ExpectLanesAddUp(run, dir, kLanes);
  EXPECT_EQ(LanesRun(dir).size(), 3u) << "the spare has run lanes, or there would be no counter";
  EXPECT_EQ(run.Pids("worker-1").size(), 1u);
  EXPECT_EQ(run.Pids("worker-2").size(), 1u);
}

class FreeOrderTest : public testing::Test {
 protected:
  TrainRun Run(const std::string& spec, std::vector<std::string> faults = {}) {
    return Train({.spec = absl::StrCat(spec, "order: free\n"),
                  .dir = folder_ / "job",
                  .workers = kWorkers,
                  .faults = std::move(faults)});
  }

  const Folder folder_;
};

// Whole numbers add up to the same in any order.
TEST_F(FreeOrderTest, CountsAreRight) {
  const TrainRun run = Run(CountingSpec(1009, kWorkers, 2));
  ExpectSameBits(run, folder_ / "job", CountingDigest(1009, 2));
  ExpectLanesAddUp(run, folder_ / "job", kWorkers);
  EXPECT_EQ(run.result.value("lanes_recomputed", -1), 0) << run.Trace();
}

TEST_F(FreeOrderTest, CountsAreRightAlsoWhenAWorkerIsKilled) {
  const TrainRun run =
      Run(CountingSpec(1009, kWorkers, 3), {"{at_point: \"half_sent:20\", kill: worker-1}"});
  ASSERT_TRUE(run.Fired("worker-1", "half_sent")) << run.Trace();
  ExpectSameBits(run, folder_ / "job", CountingDigest(1009, 3));
  ExpectNoWayBack(run, folder_ / "job");
  ExpectLanesAddUp(run, folder_ / "job", kWorkers);
}

TEST_F(FreeOrderTest, ALanguageModelLearns) {
  const TrainRun run = Run(LanguageSpec(folder_ / "data", kWorkers, 40));
  ExpectDone(run, folder_ / "job");
  ExpectLanesAddUp(run, folder_ / "job", kWorkers);
  EXPECT_LT(run.result.value("final_loss", NAN), run.result.value("first_loss", NAN))
      << run.Trace();
}

}  // namespace
}  // namespace muster::integration
