// What is told of hosts, made of what is known of them and of the jobs that are placed there.
#include "coordinator/service/host_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/field_error.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Time kNow = Time(seconds(1000));

KnownCluster Cluster(KnownHosts hosts, std::vector<JobStatus> jobs = {}) {
  KnownJobs known;
  for (JobStatus& job : jobs)
    known.push_back(std::make_shared<const KnownJob>(KnownJob{.status = std::move(job)}));
  return {std::make_shared<const KnownJobs>(std::move(known)),
          std::make_shared<const KnownHosts>(std::move(hosts))};
}

// Of a worker and a server on host a, and a worker that has no place.
JobStatus Job(JobPhase phase) {
  JobStatus status;
  status.job.id = "j";
  status.job.phase = phase;
  status.job.placements["worker-0"] = {.host = "a", .number = PlacementNumber(7)};
  status.job.placements["server-0"] = {
      .role = Role::kServer, .host = "a", .number = PlacementNumber(8)};
  status.job.placements["worker-1"] = {};
  status.job.left_out = {"b"};
  MemberStatus worker;
  worker.member.id.name = "worker-0";
  worker.up = true;
  worker.state = "active";
  status.members.push_back(worker);
  return status;
}

TEST(Hosts, AreToldWithWhoIsPlacedThere) {
  const KnownCluster known =
      Cluster({{.name = "a", .node = "n", .slots = 4, .up = true}, {.name = "b", .slots = 2}},
              {Job(JobPhase::kRunning)});
  const absl::StatusOr<HostInfo> host = HostOf(known, "a", kNow);
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(host->node, "n");
  EXPECT_EQ(host->used, 2);
  EXPECT_EQ(host->free, 2);
  ASSERT_EQ(host->members.size(), 2u);
  EXPECT_EQ(host->members[0].member, "server-0");
  EXPECT_EQ(host->members[0].role, "server");
  EXPECT_EQ(host->members[0].state, "absent");
  EXPECT_EQ(host->members[1].state, "active");
  EXPECT_EQ(host->members[1].placement, 7);
  EXPECT_THAT(HostOf(known, "b", kNow)->left_out_by, ElementsAre("j"));
}

TEST(Hosts, DevicesAreUsedByWhoIsPlacedThereAndByWhoStillEnds) {
  JobStatus job = Job(JobPhase::kRunning);
  job.job.placements["worker-0"].devices = {"0", "2"};
  const HostStatus a{
      .name = "a",
      .slots = 4,
      .devices = {{"0", PlacementNumber(7)}, {"1", PlacementNumber(3)}, {"2"}, {"3"}}};
  const HostInfo host = *HostOf(Cluster({a}, {job}), "a", kNow);
  EXPECT_THAT(host.devices, ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(host.devices_used, ElementsAre("0", "1", "2"));
  EXPECT_THAT(host.members[1].devices, ElementsAre("0", "2"));
  EXPECT_THAT(HostOf(Cluster({a}), "a", kNow)->devices_used, ElementsAre("0", "1"));
}

TEST(Hosts, AreFreeOfJobsThatDoNotRun) {
  for (const JobPhase phase : {JobPhase::kQueued, JobPhase::kDone, JobPhase::kFailed}) {
    const KnownCluster known = Cluster({{.name = "a", .slots = 4, .up = true}}, {Job(phase)});
    EXPECT_EQ(HostOf(known, "a", kNow)->used, 0) << PhaseName(phase);
  }
}

TEST(Hosts, AreAwaySinceTheirSessionWasLost) {
  const KnownCluster known = Cluster({{.name = "a", .away_since = kNow - seconds(12)},
                                      {.name = "b", .up = true, .away_since = Time()},
                                      {.name = "c", .away_since = kNow + seconds(1)}});
  EXPECT_DOUBLE_EQ(HostOf(known, "a", kNow)->away_for_seconds, 12);
  EXPECT_DOUBLE_EQ(HostOf(known, "b", kNow)->away_for_seconds, 0) << "it is up";
  EXPECT_DOUBLE_EQ(HostOf(known, "c", kNow)->away_for_seconds, 0) << "lost since we asked";
}

TEST(Hosts, WithMoreMembersThanSlotsHaveNoneFree) {
  const KnownCluster known =
      Cluster({{.name = "a", .slots = 1, .up = true}}, {Job(JobPhase::kRunning)});
  EXPECT_EQ(HostOf(known, "a", kNow)->free, 0);
}

TEST(Hosts, ThatAreUnknownAreToldWithSomeThatAreThere) {
  KnownHosts hosts;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) hosts.push_back({.name = name});
  EXPECT_EQ(HostOf(Cluster(hosts), "x", kNow).status(),
            absl::NotFoundError("there is no host x; there are: a, b, c, d, e, …; `muster hosts` "
                                "shows all"));
  EXPECT_THAT(HostOf(Cluster({}), "x", kNow).status().message(), HasSubstr("`muster agent` joins"));
}

TEST(Hosts, ComeInPages) {
  KnownHosts hosts;
  for (const char* name : {"a", "b", "c"}) hosts.push_back({.name = name});
  const auto names = [&](const HostQuery& query) {
    std::string text;
    const absl::StatusOr<HostPage> page = HostPageOf(Cluster(hosts), query, kNow);
    for (const HostInfo& host : page->hosts) text += host.name;
    return text + "|" + page->next_page_token;
  };
  EXPECT_EQ(names({}), "abc|");
  EXPECT_EQ(names({.limit = 2}), "ab|b");
  EXPECT_EQ(names({.limit = 2, .page_token = "b"}), "c|");
  EXPECT_EQ(names({.limit = 3}), "abc|");
  EXPECT_EQ(names({.page_token = "bb"}), "c|") << "b has gone meanwhile";
  EXPECT_EQ(names({.page_token = "c"}), "|");
  EXPECT_EQ(FieldOf(HostPageOf(Cluster(hosts), {.limit = kMostJobsPerPage + 1}, kNow).status()),
            "limit");
}

TEST(Hosts, ThatWereRevokedAreNamedOnTheFirstPage) {
  KnownCluster known = Cluster({{.name = "a"}});
  known.host_records = std::make_shared<const HostRecords>(
      HostRecords{{"a", {}}, {"b", {.revoked = true}}, {"c", {.revoked = true}}});
  EXPECT_THAT(HostPageOf(known, {}, kNow)->revoked, ElementsAre("b", "c"));
  EXPECT_THAT(HostPageOf(known, {.page_token = "a"}, kNow)->revoked, ElementsAre());
}

TEST(Hosts, EachPageSaysWherePodsAreMadeAndWhatKeepsItFromThat) {
  const KnownCluster known = Cluster({});
  EXPECT_EQ(HostPageOf(known, {}, kNow)->launch_namespace, "");
  LauncherNote launcher("ml");
  EXPECT_EQ(HostPageOf(known, {}, kNow, &launcher)->launch_namespace, "ml");
  EXPECT_EQ(HostPageOf(known, {}, kNow, &launcher)->launch_trouble, "");
  launcher.SetTrouble("the API is away");
  EXPECT_EQ(HostPageOf(known, {.page_token = "a"}, kNow, &launcher)->launch_trouble,
            "the API is away");
}

TEST(Hosts, APageEndsWhereItsHostsAreLarge) {
  JobStatus large = Job(JobPhase::kRunning);
  large.job.id = std::string(kMostPageBytes, 'j');
  const KnownCluster known = Cluster({{.name = "a"}, {.name = "b"}}, {large});
  const absl::StatusOr<HostPage> page = HostPageOf(known, {}, kNow);
  EXPECT_EQ(page->hosts.size(), 1u);
  EXPECT_EQ(page->next_page_token, "a");
}

}  // namespace
}  // namespace muster::coordinator
