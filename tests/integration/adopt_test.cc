// A cluster is lost with everything that it kept but the checkpoints of a job: a fresh one adopts
// the job from them, and it ends with the bits of an undisturbed run.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"

namespace muster::integration {
namespace {

constexpr int kLanes = 6;
constexpr int kSteps = 300;
constexpr int64_t kEnough = 16;  // of a step that was saved
constexpr auto kPatience = std::chrono::seconds(60);

TEST(AdoptTest, AFreshClusterGoesOnFromTheCheckpointsThatWereLeft) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps);
  WriteFile(folder / "job.yaml", spec);
  const std::string old_cluster = folder / "old", left = folder / "left";
  {
    UpCluster cluster(old_cluster, {"--slots", "2"});
    const UpCluster::Said said = cluster.Say({"submit", folder / "job.yaml", "--id", "job", "--set",
                                              "workers=2", "--set", "checkpoint.every_steps=4"});
    ASSERT_EQ(said.exit_code, 0) << said.text;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    nlohmann::json status;
    const auto saved = [&]() -> int64_t {
      status = cluster.Ask({"status", "job", "--json"});
      const bool is_there = status.is_object() && status["checkpoint_step"].is_number();
      return is_there ? status["checkpoint_step"].get<int64_t>() : -1;
    };
    while (saved() < kEnough && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    ASSERT_EQ(status.value("state", ""), "running") << status;
    // From here on what it writes is not seen any more.
    std::filesystem::rename(old_cluster + "/checkpoints/job", left);
    cluster.up().Signal(SIGKILL);
    cluster.up().End();
  }
  std::filesystem::remove_all(old_cluster);
  UpCluster cluster(folder / "new", {"--slots", "2"});
  const UpCluster::Said adopted = cluster.Say({"adopt", left});
  ASSERT_EQ(adopted.exit_code, 0) << adopted.text;
  EXPECT_NE(cluster.Say({"adopt", left}).exit_code, 0) << "there is a job of that id";
  std::filesystem::remove_all(left);
  const UpCluster::Said watched = cluster.Say({"watch", "job"});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  const nlohmann::json digest = cluster.Ask({"digest", "job", "--json"});
  ASSERT_TRUE(digest.is_object()) << digest;
  EXPECT_EQ(digest.value("digest", ""), UndisturbedDigest(spec, folder / "undisturbed"));
  const nlohmann::json audit = cluster.Ask({"audit", "job", "--json"});
  ASSERT_TRUE(audit.is_object()) << audit;
  EXPECT_TRUE(audit.value("ok", false)) << audit;
  EXPECT_THAT(audit.value("conclusion", ""), ::testing::HasSubstr("vouches for them"));
}

}  // namespace
}  // namespace muster::integration
