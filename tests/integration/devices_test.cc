// Devices of a host, which are only words here: `muster up --devices`, and what workers find in
// their environment.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int kSamples = 1009;
constexpr int kManyEpochs = 2000;  // it is stopped long before

// "none": the variable is not there.
std::string VisibleTo(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/environ"), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (absl::string_view variable : absl::StrSplit(text, '\0'))
    if (absl::ConsumePrefix(&variable, "CUDA_VISIBLE_DEVICES=")) return std::string(variable);
  return "none";
}

class DevicesTest : public ::testing::Test {
 protected:
  DevicesTest() {
    WriteFile(folder_ / "job.yaml", CountingSpec(kSamples, /*lanes=*/7, kManyEpochs));
    AdoptOrphans();
  }
  void Submit(const std::string& id, int workers, int devices) {
    const UpCluster::Said said = cluster_.Say({"submit", folder_ / "job.yaml", "--id", id, "--set",
                                               absl::StrCat("workers=", workers), "--set",
                                               absl::StrCat("devices=", devices)});
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  // Once a step is done all of them are there.
  void AwaitStep(const std::string& id) {
    Program watcher(cluster_.Command({"watch", id, "--json"}));
    ASSERT_TRUE(watcher.WaitFor("\"event\":\"step\"")) << watcher.output();
  }
  std::vector<std::string> SeenByWorkers() {
    std::vector<std::string> seen;
    for (const pid_t pid : cluster_.WorkerPids()) seen.push_back(VisibleTo(pid));
    return seen;
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "4", "--devices", "7,GPU-8932f937"}};
};

TEST_F(DevicesTest, EachWorkerFindsItsOwnAndNoOthers) {
  Submit("two", 2, 1);
  AwaitStep("two");
  EXPECT_THAT(SeenByWorkers(), UnorderedElementsAre("7", "GPU-8932f937"));
  EXPECT_THAT(cluster_.Say({"hosts"}).text, ContainsRegex("2/4 +2/2 +up"));

  Submit("next", 1, 2);
  EXPECT_THAT(cluster_.Say({"status", "next"}).text,
              HasSubstr("needs 1 worker with 2 devices each; enough are free for 0 of 1"));
  Submit("huge", 1, 3);
  EXPECT_THAT(cluster_.Say({"status", "huge"}).text,
              HasSubstr("needs 3 devices for each worker; no host has more than 2"));
  EXPECT_EQ(cluster_.Say({"cancel", "huge"}).exit_code, 0);

  EXPECT_EQ(cluster_.Say({"cancel", "two"}).exit_code, 0);
  AwaitStep("next");
  EXPECT_THAT(SeenByWorkers(), ElementsAre("7,GPU-8932f937"));
  EXPECT_EQ(cluster_.Say({"cancel", "next"}).exit_code, 0);

  Submit("none", 1, 0);
  AwaitStep("none");
  EXPECT_THAT(cluster_.Say({"hosts"}).text, ContainsRegex("1/4 +[0-2]/2 +up"));
  const std::vector<std::string> seen = SeenByWorkers();
  EXPECT_THAT(seen, ::testing::Contains("")) << "it asked for none";
  EXPECT_EQ(cluster_.Say({"cancel", "none"}).exit_code, 0);
}

}  // namespace
}  // namespace muster::integration
