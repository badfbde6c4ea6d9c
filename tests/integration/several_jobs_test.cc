// Several jobs on one cluster, where processes are killed, and each ends with the bits that it has
// alone: three with room for two, of which one is killed again and again; two side by side whose
// views lose members and go on; and two whose coordinator is killed.
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
#include "tests/support/run_trust.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;

constexpr int kSamples = 1009;
constexpr int kFewEpochs = 16;
constexpr int kManyEpochs = 150;

// A worker that dies four times, a few steps further each time; members of the others, once each.
constexpr char kFaults[] =
    "- {job: crashing, at_point: \"forward:600\", kill: worker-0}\n"
    "- {job: crashing, at_point: \"forward:800\", kill: worker-0}\n"
    "- {job: crashing, at_point: \"forward:600\", kill: worker-0}\n"
    "- {job: crashing, at_point: \"forward:800\", kill: worker-0}\n"
    "- {job: long, at_step: 200, kill: worker-0}\n"
    "- {job: waiting, at_step: 200, kill: worker-0}\n";

// Of each job one worker, the later times if it is back by then; the other worker never, so that
// views survive.
constexpr char kFaultsSideBySide[] =
    "- {job: pair, at_point: \"forward:600\", kill: worker-1}\n"
    "- {job: pair, at_step: 4000, kill: worker-1}\n"
    "- {job: served, at_point: \"forward:200\", kill: worker-0}\n"
    "- {job: served, at_step: 1000, kill: worker-0}\n";

// The numbers of events go through all jobs, in one term of the coordinator.
struct ToldEvent {
  int64_t seq = 0;
  std::string name;
  std::string job;
};

void AddEvents(const UpCluster& cluster, const std::string& job, std::vector<ToldEvent>& events) {
  std::string term;
  const absl::Status told = http::StreamEvents(
      absl::StrCat(cluster.url(), "/v1/jobs/", job, "/events"),
      [&](const http::Event& event) {
        if (term.empty()) term = event.id.substr(0, event.id.find('-'));
        EXPECT_EQ(event.id.substr(0, event.id.find('-')), term) << "events of one term are kept";
        const auto data = nlohmann::json::parse(event.data, nullptr, false);
        events.push_back({data.value("seq", int64_t{-1}), event.name, job});
        return event.name != "done";
      },
      {.token = ClientOf(cluster.dir()).token, .trust = TrustOf(cluster.dir())});
  // A stream of a job that is over ends by itself.
  EXPECT_TRUE(told.ok() || absl::IsUnavailable(told)) << told;
}

// How often a step of one job follows one of another.
int Alternations(std::vector<ToldEvent> events) {
  std::erase_if(events, [](const ToldEvent& event) { return event.name != "step"; });
  int count = 0;
  for (size_t i = 1; i < events.size(); ++i) count += events[i].job != events[i - 1].job;
  return count;
}

// The place of the first such event of the job.
size_t PlaceOf(const std::string& name, const std::string& job,
               const std::vector<ToldEvent>& events) {
  const auto it = std::find_if(events.begin(), events.end(), [&](const ToldEvent& event) {
    return event.name == name && event.job == job;
  });
  EXPECT_NE(it, events.end()) << name << " of " << job;
  return static_cast<size_t>(it - events.begin());
}

class SeveralJobsTest : public ::testing::Test {
 protected:
  explicit SeveralJobsTest(const std::string& slots = "2", const std::string& faults = kFaults)
      : cluster_(folder_ / "cluster", {"--slots", slots, "--faults", WriteFaults(faults)}) {
    WriteFile(folder_ / "few.yaml", CountingSpec(kSamples, /*lanes=*/7, kFewEpochs));
    WriteFile(folder_ / "many.yaml", CountingSpec(kSamples, /*lanes=*/7, kManyEpochs));
  }

  void Submit(const std::string& id, const std::string& spec) {
    const UpCluster::Said said = cluster_.Say({"submit", folder_ / spec, "--id", id});
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  void ExpectCounted(const std::string& job, int epochs) {
    ExpectCountedJob(cluster_, job, kSamples, epochs);
  }
  // In the order in which they happened.
  std::vector<ToldEvent> EventsOf(const std::vector<std::string>& jobs) const {
    std::vector<ToldEvent> events;
    for (const std::string& job : jobs) AddEvents(cluster_, job, events);
    std::sort(events.begin(), events.end(),
              [](const ToldEvent& a, const ToldEvent& b) { return a.seq < b.seq; });
    return events;
  }
  std::string WriteFaults(const std::string& faults) const {
    WriteFile(folder_ / "faults.yaml", faults);
    return folder_ / "faults.yaml";
  }

  const Folder folder_;
  UpCluster cluster_;
};

// Five slots: two jobs of two workers each, one of them with a server.
class SideBySideTest : public SeveralJobsTest {
 protected:
  SideBySideTest() : SeveralJobsTest("5", kFaultsSideBySide) {}

  void SubmitWith(const std::string& id, const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"submit", folder_ / "many.yaml", "--id", id};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const UpCluster::Said said = cluster_.Say(words);
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  void ExpectThatViewsSurvived(const std::string& job) {
    const nlohmann::json status = cluster_.Ask({"status", job, "--json"});
    ASSERT_TRUE(status.is_object()) << status;
    EXPECT_GE(status.value("recoveries", 0), 1) << status;
    EXPECT_EQ(status.value("rewinds", -1), 0) << "somebody was left with the state: " << status;
  }
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

  EXPECT_GE(Alternations(EventsOf({"long", "crashing", "waiting"})), 2)
      << "no job made steps between those of another";

  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  EXPECT_THAT(cluster_.up().output(), HasSubstr("fault plan: kills worker-0 of long (SIGKILL)"));
  EXPECT_THAT(cluster_.up().output(), HasSubstr("fault plan: kills worker-0 of waiting (SIGKILL)"));
  ExpectNoChildren();
}

// By hand and not by a plan, as commands that ask at that moment would fail.
class CoordinatorKilledTest : public SeveralJobsTest {
 protected:
  CoordinatorKilledTest() : SeveralJobsTest("2", "[]") {}

  pid_t Coordinator() const {
    const std::vector<pid_t> found = cluster_.PidsOf("muster-coordinator");
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? -1 : found[0];
  }
};

TEST_F(CoordinatorKilledTest, JobsGoOnBesideEachOther) {
  AdoptOrphans();
  Submit("one", "many.yaml");
  Submit("other", "many.yaml");
  Program watch(cluster_.Command({"watch", "one"}));
  ASSERT_TRUE(watch.WaitFor("step 1 of")) << watch.output();
  const size_t said = cluster_.up().output().size();
  const pid_t coordinator = Coordinator();
  ASSERT_GT(coordinator, 0);
  kill(coordinator, SIGKILL);
  ASSERT_TRUE(cluster_.up().WaitFor("ready at", said)) << cluster_.up().output();
  EXPECT_EQ(watch.End(), 0) << watch.output();
  ExpectCounted("one", kManyEpochs);
  ExpectCounted("other", kManyEpochs);

  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  ExpectNoChildren();
}

TEST_F(SideBySideTest, ViewsThatLoseMembersGoOnBesideEachOther) {
  AdoptOrphans();
  SubmitWith("served", {"epochs=30", "workers=2", "sync=server", "servers=1"});
  SubmitWith("pair", {"epochs=100", "workers=2"});  // fewer events than a coordinator keeps
  ExpectCounted("pair", 100);
  ExpectCounted("served", 30);
  ExpectThatViewsSurvived("pair");
  ExpectThatViewsSurvived("served");
  const std::vector<ToldEvent> events = EventsOf({"served", "pair"});
  EXPECT_LT(PlaceOf("recovery", "served", events), PlaceOf("done", "pair", events));
  EXPECT_LT(PlaceOf("recovery", "pair", events), PlaceOf("done", "served", events));

  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  ExpectNoChildren();
}

}  // namespace
}  // namespace muster::integration
