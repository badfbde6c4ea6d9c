#include "coordinator/kubernetes/plan.h"

#include <chrono>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

const Launch kLaunch{.name = "l", .job = "j", .hosts = 2};

SeenCluster With(SeenLaunch there) {
  there.name = "l";
  SeenCluster seen;
  seen.launches["l"] = std::move(there);
  return seen;
}

// "make l", "resize l", "free l", "end l"
std::string StepsOf(const Launches& wanted, const SeenCluster& seen,
                    const std::set<std::string>& stuck = {}) {
  std::string text;
  for (const LaunchStep& step : StepsFor(wanted, seen, stuck))
    text += (text.empty() ? "" : ", ") +
            (step.kind == LaunchStep::Kind::kMake     ? "make " + step.launch.name
             : step.kind == LaunchStep::Kind::kResize ? "resize " + step.launch.name
             : step.kind == LaunchStep::Kind::kFree   ? "free " + step.launch.name
                                                      : "end " + step.seen.name);
  return text;
}

TEST(Plan, WhatIsMissingIsMadeAndWhatIsThereIsLeftAlone) {
  Launch elastic = kLaunch;
  elastic.is_elastic = true;
  const SeenLaunch job{.kind = LaunchKind::kIndexedJob, .hosts = 2};
  SeenLaunch more = job, ending = job, failed = job, set = job;
  more.hosts = 3;
  ending.is_ending = true;
  failed.failure = "given up";
  failed.hosts = 1;
  set.kind = LaunchKind::kJobSet;
  set.hosts = 5;
  struct Row {
    const char* what;
    Launches wanted;
    SeenCluster seen;
    const char* steps;
  };
  for (const Row& row :
       {Row{"nothing is there", {kLaunch}, {}, "make l"},
        Row{"it is there", {kLaunch}, With(job), ""},
        Row{"it is to have fewer pods", {elastic}, With(more), "resize l"},
        Row{"a JobSet keeps its number", {kLaunch}, With(set), ""},
        Row{"it is being deleted: not made before it is gone", {kLaunch}, With(ending), ""},
        Row{"it was given up", {elastic}, With(failed), ""},
        Row{"nobody wants it", {}, With(job), "end l"},
        Row{"and it is ending already", {}, With(ending), ""}})
    EXPECT_EQ(StepsOf(row.wanted, row.seen), row.steps) << row.what;
}

TEST(Plan, WhatKeepsItsDeadIsLookedAt) {
  SeenCluster seen = With({.hosts = 2});
  EXPECT_FALSE(KeepsItsDead(seen, "l")) << "none has been made yet";
  seen.pods["l"]["a"] = {.name = "a", .launch = "l", .is_ending = true, .is_kept = true};
  EXPECT_TRUE(KeepsItsDead(seen, "l"));
  EXPECT_THAT(ToldOf(kLaunch, seen, {.since_made = seconds(20)}).why,
              HasSubstr("none in their place"));
  EXPECT_EQ(StepsOf({kLaunch}, seen), "");
  EXPECT_EQ(StepsOf({kLaunch}, seen, {"l"}), "free l");
  SeenCluster ending = seen, suspended = seen, replaced = seen;
  ending.launches["l"].is_ending = true;
  suspended.launches["l"].is_suspended = true;
  replaced.pods["l"]["b"] = {.name = "b", .launch = "l"};
  EXPECT_FALSE(KeepsItsDead(ending, "l"));
  EXPECT_EQ(StepsOf({kLaunch}, ending, {"l"}), "");
  EXPECT_FALSE(KeepsItsDead(suspended, "l"));
  EXPECT_FALSE(KeepsItsDead(replaced, "l"));
}

TEST(Plan, WhatStandsInTheWayIsTold) {
  SeenCluster seen = With({.hosts = 2});
  EXPECT_EQ(ToldOf(kLaunch, {}, {}).text, "its pods are being made");
  EXPECT_THAT(ToldOf(kLaunch, seen, {.since_made = seconds(1)}).why, IsEmpty())
      << "controllers take a moment";
  EXPECT_THAT(ToldOf(kLaunch, seen, {.since_made = seconds(20)}).why, HasSubstr("has made 0 pods"));
  seen.pods["l"]["a"] = {.name = "a", .launch = "l", .runs = true};
  seen.pods["l"]["b"] = {.name = "b", .launch = "l", .waits_for = "Unschedulable: 0/3 nodes"};
  const LaunchTold told = ToldOf(kLaunch, seen, {.since_made = seconds(20)});
  EXPECT_EQ(told.text, "1 of 2 pods of JobSet l runs");
  EXPECT_EQ(told.why, "pod b: Unschedulable: 0/3 nodes");
  EXPECT_THAT(told.failure, IsEmpty());
  seen.launches["l"].is_suspended = true;
  EXPECT_THAT(ToldOf(kLaunch, seen, {}).why, HasSubstr("suspended"));
  seen.launches["l"].is_suspended = false;
  seen.pods["l"]["b"] = {.name = "b", .launch = "l", .runs = true};
  EXPECT_EQ(ToldOf(kLaunch, seen, {}), LaunchTold{.launch = "l"});
}

TEST(Plan, WhatIsGivenUpIsTold) {
  SeenCluster seen = With({.failure = "FailedJobs: one has failed"});
  EXPECT_THAT(ToldOf(kLaunch, seen, {.since_failed = seconds(1)}).failure, IsEmpty())
      << "its Job may tell more in a moment";
  EXPECT_EQ(ToldOf(kLaunch, seen, {.since_failed = seconds(6)}).exit_code, 1);
  seen.part_failures["l"] = "PodFailurePolicy: failed with exit code 64 matching";
  seen.pods["l"]["a"] = {.name = "a",
                         .launch = "l",
                         .is_ending = true,
                         .has_failed = true,
                         .exit_code = 64,
                         .last_words = "bad option"};
  LaunchTold told = ToldOf(kLaunch, seen, {});
  EXPECT_TRUE(told.is_over);
  EXPECT_EQ(told.exit_code, 64);
  EXPECT_THAT(told.failure, AllOf(HasSubstr("exit code 64"), HasSubstr("last words: bad option")));
  seen.part_failures["l"] = "PodFailurePolicy: failed with exit code 72 matching";
  seen.pods["l"]["b"] = {.name = "b",
                         .launch = "l",
                         .has_failed = true,
                         .exit_code = 72,
                         .last_words = "no plug-in brings it"};
  told = ToldOf(kLaunch, seen, {});
  EXPECT_EQ(told.exit_code, 64) << "as where no host has the plug-in";
  EXPECT_THAT(told.failure, HasSubstr("last words: no plug-in brings it"));
  seen.launches["l"].is_ending = true;
  EXPECT_THAT(ToldOf(kLaunch, seen, {}).failure, IsEmpty()) << "another takes its place";
  told = ToldOf(kLaunch, With({.is_complete = true}), {});
  EXPECT_TRUE(told.is_over);
}

// As of a container that needs more memory than it has: it comes and goes for hours until
// Kubernetes gives it up, which forgets the exit code.
TEST(Plan, PodsThatFailAgainAndAgainAreTold) {
  SeenCluster seen = With({.hosts = 2});
  seen.pods["l"]["a"] = {.name = "a", .launch = "l", .runs = true};
  const auto fails = [&](const std::string& name, int code, const std::string& cause,
                         const std::string& at) {
    seen.pods["l"][name] = {.name = name,
                            .launch = "l",
                            .is_ending = true,
                            .has_failed = true,
                            .exit_code = code,
                            .cause = cause,
                            .ended_at = at};
  };
  fails("z", 1, "", "2026-01-01T00:00:01Z");
  fails("b", 137, "OOMKilled", "2026-01-01T00:00:02Z");
  const std::string why = ToldOf(kLaunch, seen, {.since_made = minutes(1)}).why;
  EXPECT_THAT(why, AllOf(HasSubstr("pod b has failed with 137 (OOMKilled)"),
                         HasSubstr("more memory"), HasSubstr("2 failures so far")));
  seen.launches["l"].failure = "FailedJobs: one has";
  EXPECT_THAT(ToldOf(kLaunch, seen, {.since_failed = minutes(1)}).failure,
              HasSubstr("pod b has failed with 137 (OOMKilled)"));
  fails("c", 0, "Evicted: low on memory", "");
  seen.pods["l"].erase("b");
  seen.pods["l"].erase("z");
  seen.launches["l"].failure.clear();
  EXPECT_THAT(ToldOf(kLaunch, seen, {}).why,
              HasSubstr("pod c has failed (Evicted: low on memory)"));
  seen.pods["l"]["d"] = {.name = "d", .launch = "l", .runs = true};
  EXPECT_THAT(ToldOf(kLaunch, seen, {}).why, IsEmpty()) << "all run again";
}

TEST(Plan, APodThatIsPreparedForLongIsTold) {
  SeenCluster seen = With({.hosts = 2});
  seen.pods["l"]["a"] = {.name = "a", .launch = "l", .is_being_prepared = true};
  EXPECT_TRUE(IsBeingPrepared(seen, "l"));
  EXPECT_THAT(ToldOf(kLaunch, seen, {.being_prepared = seconds(29)}).why, IsEmpty());
  EXPECT_THAT(
      ToldOf(kLaunch, seen, {.being_prepared = seconds(30)}).why,
      AllOf(HasSubstr("secret"), HasSubstr("kubectl describe pod -A -l muster.dev/launch=l")));
}

TEST(Plan, AnImageThatCannotBeHadIsWaitedFor) {
  SeenCluster seen = With({.hosts = 2});
  seen.pods["l"]["a"] = {
      .name = "a", .launch = "l", .waits_for = "ErrImagePull: no", .has_no_image = true};
  EXPECT_TRUE(LacksImage(seen, "l"));
  EXPECT_THAT(ToldOf(kLaunch, seen, {.without_image = minutes(9)}).failure, IsEmpty());
  const LaunchTold told = ToldOf(kLaunch, seen, {.without_image = minutes(10)});
  EXPECT_THAT(told.failure, HasSubstr("ErrImagePull"));
  EXPECT_FALSE(told.is_over) << "a job that runs on others trains on";
}

}  // namespace
}  // namespace muster::coordinator
