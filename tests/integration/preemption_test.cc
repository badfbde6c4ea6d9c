// Jobs of several priorities and namespaces on one cluster: one that is preempted again and again
// ends with the bits that it has alone, and quotas, labels and priorities are set by commands.
#include <signal.h>

#include <string>
#include <utility>
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
using ::testing::Not;

constexpr int kRounds = MUSTER_ROUNDS;
constexpr int kSamples = 1009;
constexpr int kVictimEpochs = 100 + 25 * kRounds;  // it is not done before the last round

class PreemptionTest : public ::testing::Test {
 protected:
  PreemptionTest() {
    WriteFile(folder_ / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, /*epochs=*/1));
  }

  UpCluster::Said Submit(const std::string& id, const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"submit", folder_ / "job.yaml", "--id", id};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return cluster_.Say(words);
  }
  nlohmann::json Status(const std::string& job) { return cluster_.Ask({"status", job, "--json"}); }
  // Its state once it is this one or the job is over; asked at most so often.
  std::string Await(const std::string& job, const std::string& state) {
    constexpr int kMostAsked = 2000;
    std::string last;
    for (int asked = 0; asked < kMostAsked; ++asked) {
      const nlohmann::json status = Status(job);
      last = status.is_object() ? status.value("state", "") : "";
      if (last == state || last == "done" || last == "failed") return last;
    }
    return last;
  }
  void ExpectCounted(const std::string& job, int epochs) {
    ExpectCountedJob(cluster_, job, kSamples, epochs);
  }
  void End() {
    cluster_.up().Signal(SIGINT);
    EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
    ExpectNoChildren();
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "2"}};
};

TEST_F(PreemptionTest, APreemptedJobEndsWithTheBitsOfAnUndisturbedOne) {
  AdoptOrphans();
  const UpCluster::Said victim =
      Submit("victim", {absl::StrCat("epochs=", kVictimEpochs), "workers={min: 2, max: 2}",
                        "checkpoint.every_steps=400"});
  ASSERT_EQ(victim.exit_code, 0) << victim.text;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_EQ(Await("victim", "running"), "running") << "round " << round;
    const std::string id = absl::StrCat("urgent-", round);
    const UpCluster::Said urgent =
        Submit(id, {"priority=1", "workers={min: 2, max: 2}", "epochs=2"});
    ASSERT_EQ(urgent.exit_code, 0) << urgent.text;
    ExpectCounted(id, 2);
  }
  ExpectCounted("victim", kVictimEpochs);
  const nlohmann::json status = Status("victim");
  ASSERT_TRUE(status.is_object()) << status;
  EXPECT_GE(status.value("views", 0), kRounds + 1) << "each time it started again: " << status;
  EXPECT_EQ(status.value("rewinds", -1), 0) << status;
  End();
}

TEST_F(PreemptionTest, QuotasLabelsAndPrioritiesAreSetByCommands) {
  AdoptOrphans();
  UpCluster::Said said = cluster_.Say({"quota", "vision", "--slots", "1"});
  ASSERT_EQ(said.exit_code, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("0/1"));
  said = Submit("see", {"namespace=vision", "labels={team: see}", "workers={min: 2, max: 2}"});
  ASSERT_EQ(said.exit_code, 0) << said.text;
  // One that is not held up ends, so the host has been there.
  said = Submit("beside", {"workers={min: 2, max: 2}"});
  ASSERT_EQ(said.exit_code, 0) << said.text;
  ExpectCounted("beside", 1);
  EXPECT_EQ(Status("see").value("waits_for", ""),
            "needs 2 slots; the quota of namespace vision is 1");

  EXPECT_THAT(cluster_.Say({"list", "--label", "team=see"}).text, HasSubstr("see"));
  EXPECT_THAT(cluster_.Say({"list", "--label", "team=see"}).text, Not(HasSubstr("beside")));
  EXPECT_THAT(cluster_.Say({"list", "--namespace", "default"}).text, HasSubstr("beside"));
  EXPECT_THAT(cluster_.Say({"list", "--label", "team=hear"}).text, Not(HasSubstr("beside")));

  said = cluster_.Say(
      {"queue", "see", "--priority", "5", "--label", "stage=two", "--no-label", "team"});
  ASSERT_EQ(said.exit_code, 0) << said.text;
  const nlohmann::json spec = Status("see")["spec"];
  EXPECT_EQ(spec["priority"], 5);
  EXPECT_EQ(spec["labels"], nlohmann::json({{"stage", "two"}}));
  said = cluster_.Say({"queue", "see", "--priority", "1001"});
  EXPECT_NE(said.exit_code, 0);
  EXPECT_THAT(said.text, HasSubstr("priority: 1001 is out of range; allowed: -1000 to 1000"));
  said = Submit("see", {"workers={min: 2, max: 2}"});
  EXPECT_NE(said.exit_code, 0);
  EXPECT_THAT(said.text, HasSubstr("exists in namespace vision"));

  said = cluster_.Say({"quota", "vision", "--slots", "none"});
  ASSERT_EQ(said.exit_code, 0) << said.text;
  ExpectCounted("see", 1);
  End();
}

}  // namespace
}  // namespace muster::integration
