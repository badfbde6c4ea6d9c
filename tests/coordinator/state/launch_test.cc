// Hosts that are made for jobs (docs/hosts.md section 12).
#include "coordinator/state/launch.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

JobJournal Waiting(const std::string& id, int64_t submission, int32_t workers,
                   int32_t priority = 0) {
  JobJournal job{.id = id, .submission = submission, .spec = SpecOf(workers, workers)};
  job.spec.queue.priority = priority;
  return job;
}

TEST(Launch, NamesAreLabelsOfDnsAndEachIsGivenOnce) {
  JobJournal job = Waiting("Train.ResNet_50-with-a-name-that-is-too-long-for-a-label", 1, 2);
  job.launch.number = (int64_t{7} << 32) + 5;
  const std::string name = LaunchNameOf("cluster", job);
  EXPECT_LE(name.size(), kLongestLaunchName);
  EXPECT_THAT(name, testing::MatchesRegex("[a-z][-a-z0-9]*[a-z0-9]"));
  EXPECT_TRUE(absl::EndsWith(name, "-700000005")) << name;
  EXPECT_THAT(name, HasSubstr("train-resnet"));
  EXPECT_NE(LaunchNameOf("another", job), name);
  job.launch.number = (int64_t{1} << 62);
  EXPECT_LE(LaunchNameOf("cluster", job).size(), kLongestLaunchName);
}

TEST(Launch, HostsAreKnownByTheirNames) {
  struct Row {
    const char* host;
    const char* launch;  // empty: it is none
    int32_t index;
  };
  for (const Row& row :
       {Row{"muster-c-job-1-hosts-0-12", "muster-c-job-1", 12},
        Row{"muster-c-job-1-3", "muster-c-job-1", 3}, Row{"muster-c-job-1-x", "", 0},
        Row{"muster-c-job-1-", "", 0}, Row{"muster-c-job-1-12345678", "", 0}, Row{"node-3", "", 0},
        Row{"", "", 0}}) {
    const auto found = HostOfLaunchNamed(row.host);
    EXPECT_EQ(found ? found->launch : "", row.launch) << row.host;
    EXPECT_EQ(found ? found->index : 0, row.index) << row.host;
  }
}

TEST(Launch, QuotasGrantInTheOrderOfTheQueueAndTakeNothingBack) {
  const JobJournal first = Waiting("first", 1, 3), second = Waiting("second", 2, 3),
                   small = Waiting("small", 3, 1), huge = Waiting("huge", 4, 9),
                   urgent = Waiting("urgent", 5, 2, /*priority=*/1);
  const Quotas quotas = {{kDefaultNamespace, Quota{.slots = 5}}};
  const std::vector<const JobJournal*> all = {&first, &second, &small, &huge, &urgent};
  LaunchDecision decision = DecideLaunches(all, quotas);
  EXPECT_THAT(decision.grants, ElementsAre("urgent", "first"));
  EXPECT_THAT(decision.waits["second"], HasSubstr("holds 5 of its quota of 5"));
  EXPECT_THAT(decision.waits["small"], HasSubstr("is kept for second"));
  EXPECT_THAT(decision.waits["huge"], HasSubstr("the quota of namespace default is 5"));
  // What was granted stays, whoever comes with a higher priority, also of a job that waits again.
  JobJournal granted = second;
  granted.launch = {.number = 1, .hosts = 3};
  decision = DecideLaunches({&first, &granted, &urgent}, quotas);
  EXPECT_THAT(decision.grants, ElementsAre("urgent"));
  EXPECT_THAT(decision.waits, Contains(Pair("first", HasSubstr("holds 5 of its quota"))));
  EXPECT_THAT(DecideLaunches(all, {}).grants, SizeIs(5));
}

TEST(Launch, TheReaderOfAStreamHasAHostAndCountsForTheQuota) {
  JobJournal job = Waiting("job", 1, 2);
  job.spec.training.stream = StreamFrom::kFolder;
  const auto decide = [&job](int32_t slots) {
    return DecideLaunches({&job}, {{kDefaultNamespace, Quota{.slots = slots}}});
  };
  EXPECT_THAT(decide(2).waits["job"], HasSubstr("needs 3 slots; the quota of namespace default"));
  EXPECT_THAT(decide(3).grants, ElementsAre("job"));
  job.launch = {.number = 1, .is_elastic = true, .hosts = 2};
  EXPECT_EQ(LaunchOf("cluster", job, /*most=*/100).hosts, 3);
}

Settings WithLauncher() {
  Settings settings;
  settings.launches = true;
  return settings;
}

class LaunchesTest : public testing::Test {
 protected:
  LaunchesTest() { desk_.Give(Submit{"job", SpecOf(2, 2)}); }
  // Of the job "job".
  Launch Only() {
    for (const Launch& launch : desk_.coordinator().launches())
      if (launch.job == "job") return launch;
    return {};
  }
  void Come(int32_t index, const std::string& launch = "") {
    const std::string name = (launch.empty() ? Only().name : launch) + "-hosts-0-";
    desk_.Give(AgentUp{HelloOf(name + std::to_string(index), 1)});
  }
  LaunchTold Failed(const std::string& why) {
    return {.launch = Only().name, .failure = why, .is_over = true, .exit_code = 64};
  }
  Desk desk_{{}, 16, WithLauncher()};
};

TEST_F(LaunchesTest, AJobStartsOnItsOwnHostsAlone) {
  EXPECT_EQ(Only().hosts, 2);
  EXPECT_EQ(Only().job, "job");
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued) << "the host of 16 slots is of no job";
  desk_.Give(Submit{"another", SpecOf(1, 1)});
  Come(0);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kQueued);
  EXPECT_EQ(desk_.Job("another").phase, JobPhase::kQueued);
  Come(1);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kChecking);
  for (const auto& [name, placement] : desk_.Job().placements)
    EXPECT_TRUE(absl::StartsWith(*placement.host, Only().name)) << *placement.host;
  EXPECT_EQ(desk_.Job("another").phase, JobPhase::kQueued) << "its own have not come";
}

TEST_F(LaunchesTest, AJobStartsWhenTheHostOfItsFollowerHasCome) {
  desk_.Give(Cancel{"job"});
  JobSpec spec = SpecOf(2, 2);
  spec.training.validation = {.every_steps = 4, .on = MeasuredOn::kFollower, .delay = 2};
  desk_.Give(Submit{"measured", spec});
  std::string launch;
  for (const Launch& made : desk_.coordinator().launches())
    if (made.job == "measured") {
      launch = made.name;
      EXPECT_EQ(made.hosts, 3);
    }
  Come(0, launch);
  Come(1, launch);
  EXPECT_EQ(desk_.Job("measured").phase, JobPhase::kQueued);
  Come(2, launch);
  EXPECT_EQ(desk_.Job("measured").phase, JobPhase::kChecking);
  std::set<std::string> hosts;
  for (const auto& [name, placement] : desk_.Job("measured").placements)
    hosts.insert(*placement.host);
  EXPECT_THAT(hosts, SizeIs(3)) << "each has one of its own";
  EXPECT_TRUE(desk_.Job("measured").placements.contains(kFollowerName));
}

TEST_F(LaunchesTest, WhatIsMissingIsWhatTheJobWaitsFor) {
  desk_.Told();
  desk_.Give(LaunchTold{.launch = Only().name, .text = "1 of 2 pods runs", .why = "no room"});
  EXPECT_EQ(desk_.Status().waits_for, "1 of 2 pods runs; no room");
  EXPECT_THAT(desk_.Told(), ElementsAre("waits: 1 of 2 pods runs; no room"));
  desk_.Give(LaunchTold{.launch = Only().name, .text = "2 of 3 pods run", .why = "no room"});
  EXPECT_THAT(desk_.Told(), IsEmpty()) << "each pod that comes is no news";
  desk_.Give(LaunchTold{.launch = "muster-of-nobody", .text = "1 of 2 pods runs"});
  EXPECT_EQ(desk_.Status().waits_for, "2 of 3 pods run; no room");
}

TEST_F(LaunchesTest, AFailureEndsTheJobThatHasThatLaunchNow) {
  const LaunchTold failed = Failed("refused");
  desk_.Give(Cancel{"job"});
  desk_.Give(failed);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kCancelled);
  EXPECT_THAT(desk_.coordinator().launches(), IsEmpty());
}

TEST_F(LaunchesTest, AJobThatIsTriedAgainHasOtherHostsAndOneFailureCountsOnce) {
  JobSpec spec = SpecOf(2, 2);
  spec.queue.retries = 3;
  desk_.Give(Submit{"again", spec});
  const auto launch = [&] {
    for (const Launch& each : desk_.coordinator().launches())
      if (each.job == "again") return each;
    return Launch{};
  };
  const std::string first = launch().name;
  LaunchTold failed{.launch = first, .failure = "given up", .is_over = true};
  desk_.Give(failed);
  desk_.Give(failed);
  EXPECT_EQ(desk_.Job("again").phase, JobPhase::kQueued);
  EXPECT_EQ(desk_.Job("again").retried, 1);
  EXPECT_NE(launch().name, first);
  failed = {.launch = launch().name, .failure = "bad", .is_over = true, .exit_code = 64};
  desk_.Give(failed);
  EXPECT_EQ(desk_.Job("again").phase, JobPhase::kFailed) << "it would fail again";
  EXPECT_EQ(desk_.Job("again").ending.exit_code, 64);
  EXPECT_EQ(desk_.Job("again").reason, "bad");
}

TEST_F(LaunchesTest, AFailureIsTakenOnceBeforePlacesAreSettled) {
  JobSpec spec = SpecOf(2, 2);
  spec.queue.retries = 3;
  desk_.Give(SetQueue{"job", spec.queue});
  const LaunchTold failed{.launch = Only().name, .failure = "given up", .is_over = true};
  for (int i = 0; i < 2; ++i) desk_.coordinator().Take(failed, desk_.now());
  desk_.coordinator().Settle(desk_.now());
  EXPECT_EQ(desk_.Job().retried, 1);
}

TEST_F(LaunchesTest, AJobThatRunsFailsOnlyWhenNothingIsLeftOfItsHosts) {
  Come(0);
  Come(1);
  LaunchTold failed = Failed("no image for one of them");
  failed.is_over = false;
  desk_.Give(failed);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kChecking);
  failed.is_over = true;
  desk_.Give(failed);
  EXPECT_EQ(desk_.Job().phase, JobPhase::kFailed);
}

TEST_F(LaunchesTest, OneThatIsSubmittedAgainHasAnotherLaunchAndARestartKeepsIt) {
  const std::string first = Only().name;
  desk_.Give(Stop{"job"});
  EXPECT_THAT(desk_.coordinator().launches(), IsEmpty());
  desk_.Give(Submit{"job", SpecOf(2, 2)});
  const std::string second = Only().name;
  EXPECT_NE(second, first);
  RecoveredState found;
  found.jobs = {desk_.Job()};
  Desk after(std::move(found), 16, WithLauncher());
  EXPECT_EQ(after.coordinator().launches().at(0).name, second);
}

TEST_F(LaunchesTest, HostsWhoseJobIsOverAreForgotten) {
  const std::string host = Only().name + "-hosts-0-0";
  desk_.Give(HostJoins{host, "key", /*by_run=*/true});
  EXPECT_THAT(desk_.coordinator().host_records(), Contains(Pair(host, testing::_)));
  desk_.Give(Cancel{"job"});
  desk_.Drain<ForgetHost>();
  for (int i = 0; i < 60; ++i) {
    desk_.Wait(std::chrono::milliseconds(500));
    desk_.Give(Tick{});
  }
  EXPECT_THAT(desk_.Drain<ForgetHost>(), SizeIs(1));
  EXPECT_THAT(desk_.coordinator().host_records(), IsEmpty());
}

TEST_F(LaunchesTest, AJobOfAnotherNamespaceKeepsNoHostFromJoining) {
  JobSpec spec = SpecOf(1, 1);
  spec.queue.name_space = "vision";
  desk_.Give(Submit{"of-vision", spec});
  const std::string host = Only().name + "-hosts-0-0";
  desk_.Give(HostJoins{host, "key", /*by_run=*/true});
  desk_.Give(HostJoins{"stranger", "key", /*by_run=*/true});
  EXPECT_THAT(desk_.coordinator().host_records(), ElementsAre(Pair(host, testing::_)));
}

TEST_F(LaunchesTest, AFixedJobThatIsScaledWhileItWaitsHasOtherHosts) {
  const std::string before = Only().name;
  desk_.Give(Scale{"job", 4, 4});
  EXPECT_EQ(Only().hosts, 4);
  EXPECT_NE(Only().name, before);
}

TEST(Launch, AnElasticJobGrowsIntoWhatIsLeftOfItsQuota) {
  Desk desk({}, 16, WithLauncher());
  desk.Give(SetQuota{kDefaultNamespace, Quota{.slots = 5}});
  desk.Give(Submit{"fixed", SpecOf(2, 2)});
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Give(Scale{"job", 1, 100});
  for (const Launch& launch : desk.coordinator().launches())
    EXPECT_EQ(launch.hosts, launch.job == "job" ? 3 : 2) << launch.job;
}

TEST(Launch, AnElasticJobKeepsAHostAsLongAsSomebodyIsPlacedThere) {
  Desk desk({}, 16, WithLauncher());
  desk.Give(Submit{"job", SpecOf(1, 3)});
  const auto only = [&] { return desk.coordinator().launches().at(0); };
  EXPECT_TRUE(only().is_elastic);
  for (const char* host : {"-0", "-1", "-2"}) desk.Give(AgentUp{HelloOf(only().name + host, 1)});
  desk.Wait(std::chrono::minutes(2));
  desk.Give(Tick{});
  desk.Give(Scale{"job", 1, 1});
  int32_t highest = 0;
  for (const auto& [name, placement] : desk.Job().placements)
    highest = std::max(highest, HostOfLaunchNamed(*placement.host)->index);
  EXPECT_EQ(only().hosts, highest + 1);
}

}  // namespace
}  // namespace muster::coordinator
