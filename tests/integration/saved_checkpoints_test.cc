// muster checkpoints of a cluster that stays up: names, deletions and what stays, of a job at rest
// and of one that trains meanwhile.
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr int kSamples = 61;

class SavedCheckpointsTest : public ::testing::Test {
 protected:
  SavedCheckpointsTest() { WriteFile(folder_ / "job.yaml", CountingSpec(kSamples, 6, 1)); }

  // A step is an epoch.
  void Submit(const std::string& id, int epochs, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> words = {"submit", folder_ / "job.yaml",
                                      "--id",   id,
                                      "--set",  absl::StrCat("batch=", kSamples),
                                      "--set",  absl::StrCat("epochs=", epochs)};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const UpCluster::Said said = cluster_.Say(words);
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  UpCluster::Said Do(const std::string& verb, const std::string& which,
                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"checkpoints", verb, which};
    words.insert(words.end(), more.begin(), more.end());
    return cluster_.Say(words);
  }
  void ExpectRefused(const UpCluster::Said& said, const std::string& why) const {
    EXPECT_NE(said.exit_code, 0) << said.text;
    EXPECT_THAT(said.text, HasSubstr(why));
  }
  nlohmann::json List(const std::string& id) const {
    const nlohmann::json list = cluster_.Ask({"checkpoints", "list", id, "--json"});
    EXPECT_TRUE(list.is_object()) << list;
    return list.is_object() ? list["checkpoints"] : nlohmann::json::array();
  }
  std::vector<int64_t> Steps(const std::string& id) const {
    std::vector<int64_t> steps;
    for (const nlohmann::json& one : List(id)) {
      EXPECT_TRUE(one["complete"]) << one;
      steps.push_back(one["step"]);
    }
    return steps;
  }
  // What the job would go back to by itself.
  std::vector<int64_t> Known(const std::string& id) const {
    std::vector<int64_t> steps;
    const nlohmann::json status = cluster_.Ask({"status", id, "--json"});
    EXPECT_TRUE(status.is_object()) << status;
    if (status.is_object())
      for (const nlohmann::json& one : status["checkpoints"]) steps.push_back(one["step"]);
    return steps;
  }
  void Await(const std::string& what, const std::function<bool()>& is_so) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    bool came = is_so();
    while (!came && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      came = is_so();
    }
    ASSERT_TRUE(came) << what;
  }
  // As another user, of that role and namespace.
  UpCluster::Said SayAs(const std::string& user, const std::string& role,
                        const std::string& name_space, const std::vector<std::string>& said) const {
    const UpCluster::Said token =
        cluster_.Say({"token", "make", user, "--role", role, "--namespace", name_space});
    EXPECT_EQ(token.exit_code, 0) << token.text;
    WriteFile(folder_ / user, token.text);
    std::filesystem::permissions(
        folder_ / user, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::vector<std::string> words = cluster_.Command(said);
    words[1] = absl::StrCat("MUSTER_TOKEN_FILE=", folder_ / user);
    Program program(std::move(words));
    const int exit_code = program.End();
    return {exit_code, program.output()};
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "2"}};
};

TEST_F(SavedCheckpointsTest, AJobAtRestGoesOnFromANameAfterOthersWereDeleted) {
  for (const int epochs : {2, 4, 6}) {
    Submit("rests", epochs, {"checkpoint.keep=9"});
    ExpectCountedJob(cluster_, "rests", kSamples, epochs);
  }
  EXPECT_THAT(Steps("rests"), ElementsAre(2, 4, 6));
  EXPECT_EQ(Do("keep", "rests@2", {"--name", "early"}).exit_code, 0);
  ExpectRefused(Do("keep", "rests@4", {"--name", "early"}), "step 2 is kept as 'early'");
  const nlohmann::json shown = cluster_.Ask({"checkpoints", "show", "rests@early", "--json"});
  ASSERT_TRUE(shown.is_object()) << shown;
  EXPECT_EQ(shown["step"], 2);
  EXPECT_EQ(shown["spec"]["task"], "counting");
  EXPECT_EQ(Do("verify", "rests").exit_code, 0);

  ExpectRefused(SayAs("eve", "submitter", "far", {"checkpoints", "list", "rests"}),
                "there is no job rests");
  const std::vector<std::string> deletion = {"checkpoints", "delete", "rests@4", "--force"};
  ExpectRefused(SayAs("ben", "submitter", "far", deletion), "there is no job rests");
  ExpectRefused(SayAs("vera", "viewer", "default", deletion), "vera is ");
  EXPECT_EQ(SayAs("ida", "viewer", "default", {"checkpoints", "list", "rests"}).exit_code, 0);

  ExpectRefused(Do("delete", "rests@early"), "is kept as 'early'");
  ExpectRefused(Do("delete", "rests@6"), "is the newest of job rests");
  ExpectRefused(Do("delete", "rests"), "which checkpoint?");
  EXPECT_THAT(Steps("rests"), ElementsAre(2, 4, 6));
  const UpCluster::Said deleted = Do("delete", "rests@4");
  EXPECT_EQ(deleted.exit_code, 0) << deleted.text;
  EXPECT_NE(Do("delete", "rests@4").exit_code, 0) << "it is gone";
  EXPECT_EQ(Do("delete", "rests@6", {"--force"}).exit_code, 0);
  EXPECT_THAT(Steps("rests"), ElementsAre(2));
  EXPECT_FALSE(std::filesystem::exists(cluster_.dir() + "/checkpoints/rests/lineage-1-step-4"));
  Submit("rests", 8, {"checkpoint.keep=9", "resume=early"});
  ExpectCountedJob(cluster_, "rests", kSamples, 8);
  EXPECT_THAT(Steps("rests"), ElementsAre(2, 8));
}

// Whatever is asked, it keeps what it would go back to.
TEST_F(SavedCheckpointsTest, AnOldOneGoesWhileItsJobTrains) {
  constexpr int kForever = 1'000'000;
  const std::vector<std::string> settings = {"checkpoint={every_steps: 1000, keep: 4}"};
  Submit("trains", kForever, settings);
  Await("it trains", [&] {
    return cluster_.Ask({"status", "trains", "--json"}).value("step", int64_t{0}) > 0;
  });
  ASSERT_EQ(cluster_.Say({"stop", "trains"}).exit_code, 0);
  cluster_.Say({"watch", "trains"});
  const UpCluster::Said kept = Do("keep", "trains", {"--name", "midway"});
  ASSERT_EQ(kept.exit_code, 0) << kept.text;
  const std::vector<int64_t> first = Steps("trains");
  ASSERT_FALSE(first.empty());
  Submit("trains", kForever, settings);
  Await("newer ones take its place", [&] {
    const std::vector<int64_t> known = Known("trains");
    return !known.empty() && known.front() > first.back();
  });

  EXPECT_EQ(Do("verify", "trains@midway").exit_code, 0);
  const UpCluster::Said exported =
      cluster_.Say({"export", "trains@midway", "-o", folder_ / "w.safetensors"});
  EXPECT_EQ(exported.exit_code, 0) << exported.text;
  // On a quick machine the one asked for has made room for newer ones before the question arrives.
  UpCluster::Said refused;
  Await("a deletion reaches one that the job would go back to", [&] {
    const std::vector<int64_t> known = Known("trains");
    if (known.empty()) return false;
    refused = Do("delete", absl::StrCat("trains@", known.back()), {"--force"});
    return refused.text.find("any more, or none yet") == std::string::npos;
  });
  ExpectRefused(refused, "stays while job trains is under way");
  ExpectRefused(Do("delete", "trains@midway"), "is kept as 'midway'");
  const UpCluster::Said deleted = Do("delete", "trains@midway", {"--force"});
  EXPECT_EQ(deleted.exit_code, 0) << deleted.text;
  const nlohmann::json left = List("trains");
  ASSERT_FALSE(left.empty());
  EXPECT_GT(left.front()["step"], first.back());
  EXPECT_EQ(cluster_.Ask({"status", "trains", "--json"}).value("state", ""), "running");
  EXPECT_EQ(cluster_.Say({"cancel", "trains"}).exit_code, 0);
}

}  // namespace
}  // namespace muster::integration
