// Three jobs on a cluster with room for two: one is killed again and again, members of the others
// and the coordinator are killed meanwhile, and each ends with the bits that it has alone.
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/http/client.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;

constexpr int kSamples = 1009;
constexpr int kFewEpochs = 16;
constexpr int kManyEpochs = 150;

// A worker that dies four times, a few steps further each time; members of the others and the
// coordinator, once each.
constexpr char kFaults[] =
    "- {job: crashing, at_point: \"forward:600\", kill: worker-0}\n"
    "- {job: crashing, at_point: \"forward:800\", kill: worker-0}\n"
    "- {job: crashing, at_point: \"forward:600\", kill: worker-0}\n"
    "- {job: crashing, at_point: \"forward:800\", kill: worker-0}\n"
    "- {job: long, at_step: 30, kill: coordinator}\n"
    "- {job: long, at_step: 200, kill: worker-0}\n"
    "- {job: waiting, at_step: 200, kill: worker-0}\n";

// A step of a job. The numbers of events go through all jobs, in one term of the coordinator.
struct ToldStep {
  int64_t seq = 0;
  std::string job;
};

void AddSteps(const std::string& url, const std::string& job, std::vector<ToldStep>& steps) {
  std::string term;
  const absl::Status told = http::StreamEvents(
      absl::StrCat(url, "/v1/jobs/", job, "/events"), [&](const http::Event& event) {
        if (term.empty()) term = event.id.substr(0, event.id.find('-'));
        EXPECT_EQ(event.id.substr(0, event.id.find('-')), term) << "events of one term are kept";
        const auto data = nlohmann::json::parse(event.data, nullptr, false);
        if (event.name == "step") steps.push_back({data.value("seq", int64_t{-1}), job});
        return event.name != "done";
      });
  // A stream of a job that is over ends by itself.
  EXPECT_TRUE(told.ok() || absl::IsUnavailable(told)) << told;
}

// How often a step of one job follows one of another.
int Alternations(const std::vector<ToldStep>& steps) {
  int count = 0;
  for (size_t i = 1; i < steps.size(); ++i) count += steps[i].job != steps[i - 1].job;
  return count;
}

class SeveralJobsTest : public ::testing::Test {
 protected:
  SeveralJobsTest() {
    WriteFile(folder_ / "few.yaml", CountingSpec(kSamples, /*lanes=*/7, kFewEpochs));
    WriteFile(folder_ / "many.yaml", CountingSpec(kSamples, /*lanes=*/7, kManyEpochs));
  }

  void Submit(const std::string& id, const std::string& spec) {
    const UpCluster::Said said = cluster_.Say({"submit", folder_ / spec, "--id", id});
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  void ExpectCounted(const std::string& job, int epochs) {
    const UpCluster::Said watched = cluster_.Say({"watch", job});
    EXPECT_EQ(watched.exit_code, 0) << watched.text;
    const nlohmann::json digest = cluster_.Ask({"digest", job});
    ASSERT_TRUE(digest.is_object()) << digest;
    EXPECT_EQ(digest.value("digest", ""), CountingDigest(kSamples, static_cast<float>(epochs)))
        << job;
    const nlohmann::json audit = cluster_.Ask({"audit", job});
    EXPECT_TRUE(audit.is_object() && audit.value("ok", false)) << job << ": " << audit;
  }
  std::string WriteFaults() const {
    WriteFile(folder_ / "faults.yaml", kFaults);
    return folder_ / "faults.yaml";
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "2", "--faults", WriteFaults()}};
};

TEST_F(SeveralJobsTest, EachEndsWithTheBitsThatItHasAlone) {
  AdoptOrphans();
  Submit("long", "many.yaml");
  Submit("crashing", "few.yaml");
  Submit("waiting", "few.yaml");
  const nlohmann::json third = cluster_.Ask({"status", "waiting", "--json"});
  ASSERT_TRUE(third.is_object()) << third;
  EXPECT_EQ(third.value("state", ""), "queued") << "there is room for two";

  Program logs(cluster_.Command({"logs", "waiting", "--dir", folder_ / "cluster", "--follow"}));
  ExpectCounted("crashing", kFewEpochs);
  ExpectCounted("waiting", kFewEpochs);
  ExpectCounted("long", kManyEpochs);
  EXPECT_EQ(logs.End(), 0) << logs.output();
  EXPECT_THAT(logs.output(), HasSubstr("worker-0 | "));
  const nlohmann::json crashed = cluster_.Ask({"status", "crashing", "--json"});
  ASSERT_TRUE(crashed.is_object()) << crashed;
  EXPECT_GE(crashed.value("recoveries", 0), 4) << crashed;

  std::vector<ToldStep> steps;
  for (const char* job : {"long", "crashing", "waiting"}) AddSteps(cluster_.url(), job, steps);
  std::sort(steps.begin(), steps.end(),
            [](const ToldStep& a, const ToldStep& b) { return a.seq < b.seq; });
  EXPECT_GE(Alternations(steps), 10) << "jobs go on at the same time";

  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  EXPECT_THAT(cluster_.up().output(), HasSubstr("fault plan: kills coordinator (SIGKILL)"));
  EXPECT_THAT(cluster_.up().output(), HasSubstr("fault plan: kills worker-0 of long (SIGKILL)"));
  EXPECT_THAT(cluster_.up().output(), HasSubstr("fault plan: kills worker-0 of waiting (SIGKILL)"));
  ExpectNoChildren();
}

}  // namespace
}  // namespace muster::integration
