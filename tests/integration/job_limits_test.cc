// What ends a job other than its last step, on a cluster: its own failure, which it may be forgiven
// (`retries`), its deadline, and the time for which it is kept when it is over (`time_to_live`).
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kSamples = 1009;
constexpr int kEpochs = 30;                    // long enough to be caught while it runs
constexpr int kManyEpochs = 1'000'000;         // more than there is time for
constexpr std::chrono::seconds kDeadline{60};  // of whatever is waited for

class JobLimitsTest : public ::testing::Test {
 protected:
  JobLimitsTest() {
    WriteFile(folder_ / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, kEpochs));
    AdoptOrphans();
  }
  ~JobLimitsTest() override {
    cluster_.up().Signal(SIGINT);
    EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
    ExpectNoChildren();
  }
  void Submit(const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"submit", folder_ / "job.yaml", "--id", "job"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const UpCluster::Said said = cluster_.Say(words);
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "1"}};
};

TEST_F(JobLimitsTest, AJobThatFailedIsTriedAgainAndEndsWithTheBitsOfOneThatDidNot) {
  Submit({"retries=1", "restarts=0"});
  Program watch(cluster_.Command({"watch", "job", "--json"}));
  ASSERT_TRUE(watch.WaitFor("\"event\":\"checkpoint\"")) << watch.output();
  ASSERT_THAT(cluster_.WorkerPids(), SizeIs(1));
  kill(cluster_.WorkerPids()[0], SIGABRT);
  ASSERT_TRUE(watch.WaitFor("it is tried again, 1 of 1 time")) << watch.output();
  EXPECT_EQ(watch.End(), 0) << watch.output();
  ExpectCountedJob(cluster_, "job", kSamples, kEpochs);
}

TEST_F(JobLimitsTest, AJobThatFailsOnceMoreThanItIsTriedAgainHasFailed) {
  Submit({"retries=1", "restarts=0", absl::StrCat("epochs=", kManyEpochs)});
  Program watch(cluster_.Command({"watch", "job", "--json"}));
  for (int tries = 0; tries < 2; ++tries) {
    const size_t from = watch.output().size();
    ASSERT_TRUE(watch.WaitFor("\"event\":\"step\"", from)) << watch.output();
    ASSERT_THAT(cluster_.WorkerPids(), SizeIs(1));
    kill(cluster_.WorkerPids()[0], SIGABRT);
    ASSERT_TRUE(watch.WaitFor(tries == 0 ? "it is tried again" : "\"event\":\"done\"", from));
  }
  EXPECT_EQ(watch.End(), 1) << watch.output();
}

TEST_F(JobLimitsTest, AJobPastItsDeadlineIsStoppedAfterACheckpointAndHasFailed) {
  Submit({"retries=1", absl::StrCat("epochs=", kManyEpochs)});
  Program watch(cluster_.Command({"watch", "job", "--json"}));
  ASSERT_TRUE(watch.WaitFor("\"event\":\"step\"")) << watch.output();
  const UpCluster::Said changed = cluster_.Say({"queue", "job", "--deadline", "1"});
  ASSERT_EQ(changed.exit_code, 0) << changed.text;
  const UpCluster::Said watched = cluster_.Say({"watch", "job"});
  EXPECT_EQ(watched.exit_code, 1) << watched.text;
  EXPECT_THAT(watched.text, HasSubstr("its deadline has passed: it may run 1 s in all; it was "
                                      "stopped after the checkpoint of step"));
  const nlohmann::json status = cluster_.Ask({"status", "job", "--json"});
  EXPECT_EQ(status.value("state", ""), "failed") << status;
  EXPECT_EQ(status.value("checkpoint_step", -1), status.value("step", -2)) << status;
}

TEST_F(JobLimitsTest, WhatIsKeptOfAJobIsDeletedAfterItsTimeToLive) {
  using Clock = std::chrono::steady_clock;
  Submit({"time_to_live=1"});
  Program watch(cluster_.Command({"watch", "job", "--json"}));
  ASSERT_TRUE(watch.WaitFor("\"event\":\"done\"")) << watch.output();
  UpCluster::Said said;
  for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
    said = cluster_.Say({"status", "job"});
    if (said.exit_code != 0) break;
  }
  EXPECT_NE(said.exit_code, 0) << "it is still there: " << said.text;
  EXPECT_THAT(said.text, HasSubstr("job"));
  EXPECT_FALSE(std::filesystem::exists(cluster_.dir() + "/checkpoints/job"));
}

}  // namespace
}  // namespace muster::integration
