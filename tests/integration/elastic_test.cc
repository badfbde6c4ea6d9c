// A job whose number of workers changes while it runs: it grows into a host that joins, is scaled,
// leaves a host that is drained and comes back there. No lane is run twice, nobody goes back, and
// the bits are those of one worker that was left alone.
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;

// Large enough that a minute, after which a job grows by itself, has not too many steps to repeat.
constexpr int kSamples = 60'013;
constexpr int kLanes = 7;
constexpr int kEpochs = 1'000'000;              // more than there is time for
constexpr std::chrono::seconds kDeadline{200};  // of whatever is waited for
constexpr std::chrono::seconds kDeadlineOfTwin{400};

std::string Spec(const std::string& length) {
  return absl::StrReplaceAll(
      CountingSpec(kSamples, kLanes, kEpochs),
      {{absl::StrCat("epochs: ", kEpochs), length},
       {"chunk_bytes: 256\nbucket_bytes: 512\nfirst_bucket_bytes: 256", "chunk_bytes: 16384"},
       {"every_steps: 16", "every_steps: 1000"}});
}

class ElasticTest : public ::testing::Test {
 protected:
  nlohmann::json Status() const { return cluster_.Ask({"status", "job", "--json"}); }

  // Until so many take part in the view, and a step more is done with them.
  void AwaitWorkers(int workers) const {
    using Clock = std::chrono::steady_clock;
    nlohmann::json status;
    int64_t since = -1;
    for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
      status = Status();
      ASSERT_TRUE(status.is_object()) << status;
      const bool is_so =
          status.value("workers", -1) == workers && status.value("state", "") == "running";
      const auto step = status.value("step", int64_t{0});
      if (!is_so) {
        since = -1;
      } else if (since < 0) {
        since = step;
      } else if (step > since) {
        return;
      }
    }
    FAIL() << "there are never " << workers << " workers: " << status;
  }
  void ExpectSaid(const std::vector<std::string>& words, const std::string& text) const {
    const UpCluster::Said said = cluster_.Say(words);
    EXPECT_EQ(said.exit_code, 0) << said.text;
    EXPECT_THAT(said.text, HasSubstr(text));
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster",
                     {"--slots", "1", "--host", "a", "--coordinator", "127.0.0.1:0"}};
  std::unique_ptr<Program> agent_;
};

TEST_F(ElasticTest, AJobGrowsIsScaledAndLeavesADrainedHostWithTheBitsOfOneWorker) {
  AdoptOrphans();
  WriteFile(folder_ / "job.yaml", Spec(absl::StrCat("epochs: ", kEpochs)));
  ExpectSaid({"submit", folder_ / "job.yaml", "--id", "job", "--set", "workers={min: 1, max: 4}"},
             "job is ");
  AwaitWorkers(1);
  agent_ = cluster_.Join("b", {"--slots", "3"});
  AwaitWorkers(4);
  ExpectSaid({"scale", "job", "--workers", "1:3"}, "job job may have 1 to 3 workers");
  AwaitWorkers(3);
  ExpectSaid({"drain", "b"}, "host b is drained: nothing is left there");
  AwaitWorkers(1);
  ExpectSaid({"drain", "b", "--undo"}, "host b takes members again");
  ExpectSaid({"scale", "job", "--workers", "1:2"}, "job job may have 1 to 2 workers");
  AwaitWorkers(2);
  ExpectSaid({"stop", "job"}, "job");

  ASSERT_EQ(cluster_.Say({"watch", "job"}).exit_code, 67);
  const nlohmann::json job = Status();
  EXPECT_EQ(job.value("state", ""), "stopped") << job;
  EXPECT_EQ(job.value("rewinds", -1), 0) << job;
  EXPECT_EQ(job.value("lanes_recomputed", -1), 0) << job;
  const nlohmann::json audit = cluster_.Ask({"audit", "job", "--json"});
  EXPECT_TRUE(audit.is_object() && audit.value("ok", false)) << audit;
  agent_->Signal(SIGTERM);
  EXPECT_EQ(agent_->End(), 75) << agent_->output();
  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  ExpectNoChildren();

  const TrainRun alone = Train({.spec = Spec(absl::StrCat("steps: ", job.value("step", 0))),
                                .dir = folder_ / "alone",
                                .hangs_after = kDeadlineOfTwin});
  EXPECT_EQ(alone.exit_code, 0) << alone.Trace();
  EXPECT_EQ(job.value("digest", "none"), alone.result.value("digest", ""));
}

}  // namespace
}  // namespace muster::integration
