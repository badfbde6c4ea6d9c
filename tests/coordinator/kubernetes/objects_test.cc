#include "coordinator/kubernetes/objects.h"

#include "coordinator/state/launch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/validation.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using testing::Eq;
using testing::HasSubstr;

constexpr char kPod[] = R"(
metadata: {labels: {team: see}}
spec:
  containers:
  - {name: other, image: o}
  - {name: muster, image: m}
)";

LaunchPlace PlaceWith(bool job_sets) {
  return {.name_space = "jobs",
          .cluster = "c1",
          .pod = ParsePodTemplate(kPod, "pod.yaml").value(),
          .has_job_sets = job_sets};
}

nlohmann::json Made(const Launch& launch, bool job_sets) {
  return nlohmann::json::parse(ObjectOf(launch, PlaceWith(job_sets)));
}

const Launch kFixed{.name = "muster-1-j-1",
                    .job = "J_1",
                    .hosts = 3,
                    .devices_each = 2,
                    .labels = {{"kueue.x-k8s.io/queue-name", "team"}}};

TEST(Objects, AFixedJobIsAJobSetAndAnElasticOneAJob) {
  Launch elastic = kFixed;
  elastic.is_elastic = true;
  EXPECT_EQ(Made(kFixed, true)["kind"], "JobSet");
  EXPECT_EQ(Made(kFixed, false)["kind"], "Job") << "there are no JobSets";
  EXPECT_EQ(Made(elastic, true)["kind"], "Job");
}

// Kueue would end all pods of a job whose number of pods changes, and gate those of one that is in
// no queue for ever.
TEST(Objects, OnlyAnElasticJobInAQueueIsElasticForKueue) {
  constexpr char kMark[] = "kueue.x-k8s.io/elastic-job";
  Launch elastic = kFixed;
  elastic.is_elastic = true;
  EXPECT_EQ(Made(elastic, true)["metadata"]["annotations"][kMark], "true");
  EXPECT_FALSE(Made(kFixed, true)["metadata"]["annotations"].contains(kMark));
  elastic.labels.clear();
  EXPECT_FALSE(Made(elastic, true)["metadata"]["annotations"].contains(kMark));
}

TEST(Objects, WhatIsMadeBearsTheJobItsLabelsAndOurExitCodes) {
  const nlohmann::json set = Made(kFixed, true);
  EXPECT_EQ(set["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team");
  EXPECT_EQ(set["metadata"]["labels"]["muster.dev/cluster"], "c1");
  EXPECT_EQ(set["metadata"]["annotations"]["muster.dev/job"], "J_1");
  const nlohmann::json& job = set["spec"]["replicatedJobs"][0]["template"]["spec"];
  EXPECT_EQ(job["completions"], 3);
  EXPECT_EQ(job["podReplacementPolicy"], "Failed");
  EXPECT_EQ(job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"],
            nlohmann::json({64, 65, 66, 67, 72, 78}));
  EXPECT_EQ(job["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"], nlohmann::json({75}));
  EXPECT_FALSE(job.contains("suspend")) << "that is Kueue's";
  const nlohmann::json& pod = job["template"];
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "see");
  EXPECT_EQ(pod["metadata"]["labels"]["muster.dev/launch"], kFixed.name);
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("resources"));
  EXPECT_EQ(pod["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"], 2);
}

// It is a process like a worker, with as many devices, so it has a pod of its own.
TEST(Objects, AFollowerHasAPodAsAWorkerHas) {
  JobJournal job{.id = "j", .launch = {.number = 1, .hosts = 0}};
  job.spec.runtime.workers_min = job.spec.runtime.workers_max = 2;
  job.spec.runtime.devices = 1;
  job.spec.training.validation = {.every_steps = 4, .on = MeasuredOn::kFollower, .delay = 2};
  job.launch.hosts = MostMembersOf(job.spec);
  const auto pods_of = [](const JobJournal& of, const char* count) {
    const nlohmann::json made = Made(LaunchOf("cluster", of, MostMembersOf(of.spec)), false);
    EXPECT_EQ(
        made["spec"]["template"]["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"],
        1);
    return made["spec"][count];
  };
  EXPECT_EQ(pods_of(job, "completions"), 3);
  EXPECT_EQ(pods_of(job, "parallelism"), 3);
  job.launch.is_elastic = true;
  job.spec.runtime.workers_max = 5;
  EXPECT_EQ(pods_of(job, "parallelism"), 6);
  job.spec.training.validation.on = MeasuredOn::kWorkers;
  EXPECT_EQ(pods_of(job, "parallelism"), 5);
}

TEST(Objects, ATemplateThatIsNoneIsRefused) {
  struct Row {
    const char* text;
    const char* why;
  };
  for (const Row& row :
       {Row{"", "is empty"}, Row{"[1]", "no object"},
        Row{"spec: {containers: []}", "called muster"},
        Row{"spec: {containers: [{name: other}]}", "called muster"},
        Row{"spec: {containers: [{name: muster}]}\nmetadata: {labels: [1]}", "metadata.labels"},
        Row{"spec: {containers: {name: muster}}", "called muster"}, Row{"a: [", ""}}) {
    const auto pod = ParsePodTemplate(row.text, "pod.yaml");
    EXPECT_FALSE(pod.ok()) << row.text;
    EXPECT_THAT(std::string(pod.status().message()), HasSubstr(row.why)) << row.text;
  }
}

// Each would take a hundred times its bytes.
TEST(Objects, AListOfMillionsOfNothingsIsNoList) {
  std::string text = R"({"metadata":{"resourceVersion":"1"},"items":[[])";
  for (int i = 0; i < 5'000'000; ++i) text += ",[]";
  EXPECT_FALSE(ListIn(text + "]}").ok());
}

TEST(Objects, AClustersIdBecomesALabel) {
  EXPECT_EQ(LabelOf("598ddf167c0aeee7aa09dd14ec03da12"), "598ddf167c0aeee7aa09dd14ec03da12");
  EXPECT_THAT(LabelOf(std::string(200, 'a')), testing::MatchesRegex("id-[0-9a-f]{16}"));
  EXPECT_THAT(LabelOf("ends.with."), testing::StartsWith("id-"));
}

TEST(Objects, ALaunchIsSeenAsItStands) {
  nlohmann::json set = Made(kFixed, true);
  set["metadata"]["uid"] = "u1";
  set["spec"]["suspend"] = true;
  const auto seen = [&] { return LaunchIn(LaunchKind::kJobSet, set.dump()); };
  EXPECT_THAT(seen(), Eq(SeenLaunch{.name = kFixed.name,
                                    .uid = "u1",
                                    .kind = LaunchKind::kJobSet,
                                    .hosts = 3,
                                    .is_suspended = true}));
  set["status"]["conditions"] = {
      {{"type", "Failed"}, {"status", "True"}, {"reason", "FailedJobs"}, {"message", "one has"}}};
  set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_EQ(seen()->failure, "FailedJobs: one has");
  EXPECT_TRUE(seen()->is_ending);
  // The Job of that JobSet is none, and tells why it has failed.
  nlohmann::json part = {
      {"metadata", {{"name", kFixed.name + "-hosts-0"}, {"labels", set["metadata"]["labels"]}}},
      {"status", set["status"]}};
  EXPECT_FALSE(LaunchIn(LaunchKind::kIndexedJob, part.dump()));
  EXPECT_EQ(PartFailureIn(part.dump())->launch, kFixed.name);
  EXPECT_FALSE(PartFailureIn(set.dump()));
}

TEST(Objects, APodTellsWhatItWaitsFor) {
  const auto pod = [](const char* status) {
    return PodIn(
        std::string(R"({"metadata":{"name":"p","labels":{"muster.dev/launch":"l"}},"status":)") +
        status + "}");
  };
  EXPECT_EQ(pod(R"({"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
                 "reason":"Unschedulable","message":"0/3 nodes"}]})")
                ->waits_for,
            "Unschedulable: 0/3 nodes");
  const auto image = pod(R"({"phase":"Pending","containerStatuses":[{"state":{"waiting":
                          {"reason":"ErrImagePull","message":"no such image"}}}]})");
  EXPECT_TRUE(image->has_no_image);
  EXPECT_EQ(image->waits_for, "ErrImagePull: no such image");
  EXPECT_FALSE(image->is_being_prepared);
  const auto prepared = pod(R"({"phase":"Pending","containerStatuses":[{"state":{"waiting":
                             {"reason":"ContainerCreating"}}}]})");
  EXPECT_EQ(prepared->waits_for, "");
  EXPECT_TRUE(prepared->is_being_prepared);
  const auto init = pod(R"({"phase":"Pending",
      "initContainerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff"}}}],
      "containerStatuses":[{"state":{"waiting":{"reason":"PodInitializing"}}},
                           {"state":{"waiting":{"reason":"CreateContainerConfigError"}}}]})");
  EXPECT_EQ(init->waits_for, "ImagePullBackOff");
  EXPECT_TRUE(init->has_no_image);
  const auto failed = pod(R"({"phase":"Failed","containerStatuses":[{"state":{"terminated":
                           {"exitCode":64,"message":"a\nb\n"}}}]})");
  EXPECT_EQ(failed->exit_code, 64);
  EXPECT_EQ(failed->last_words, "a b");
  EXPECT_TRUE(failed->has_failed);
  const auto killed = pod(R"({"phase":"Failed","containerStatuses":[{"state":{"terminated":
      {"exitCode":137,"reason":"OOMKilled","finishedAt":"2026-01-01T00:00:00Z"}}}]})");
  EXPECT_EQ(killed->exit_code, 137);
  EXPECT_EQ(killed->cause, "OOMKilled");
  EXPECT_EQ(killed->ended_at, "2026-01-01T00:00:00Z");
  EXPECT_EQ(pod(R"({"phase":"Failed","reason":"Evicted","message":"low on memory",
                 "containerStatuses":[{"state":{"terminated":{"exitCode":1,"reason":"Error"}}}]})")
                ->cause,
            "Evicted: low on memory");
  EXPECT_TRUE(failed->is_ending);
  EXPECT_FALSE(failed->is_kept) << "it is looked at by nobody yet";
  const std::string told = R"({"metadata":{"name":"p","labels":{"muster.dev/launch":"l"},
                              "deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":)";
  EXPECT_TRUE(PodIn(told + R"("Failed"}})")->is_kept);
  EXPECT_FALSE(PodIn(told + R"("Failed"}})")->has_failed) << "it was told to end";
  EXPECT_FALSE(PodIn(told + R"("Running"}})")->is_kept);
  EXPECT_TRUE(pod(R"({"phase":"Running"})")->runs);
}

TEST(Objects, ARefusalTellsThatItsNamespaceIsBeingDeleted) {
  EXPECT_TRUE(IsNamespaceEnding(
      R"({"code":403,"details":{"causes":[{"reason":"other"},{"reason":"NamespaceTerminating"}]}})"));
  for (const char* text : {"", "{}", R"({"reason":"Forbidden","details":{}})",
                           R"({"details":{"causes":[{"reason":"FieldValueInvalid"},7]}})"})
    EXPECT_FALSE(IsNamespaceEnding(text)) << text;
}

TEST(Objects, WhatIsNoObjectOfOursIsNothing) {
  for (
      const char* text :
      {"", "{", "null", "[]", "7", R"({"metadata":7})", R"({"metadata":{"name":7}})",
       R"({"metadata":{"name":"p","labels":[]},"status":{"phase":7}})",
       R"({"metadata":{"name":"l","labels":{"muster.dev/launch":"l"}},"spec":{"replicatedJobs":7}})",
       "\xff\xfe"}) {
    EXPECT_FALSE(PodIn(text) && PodIn(text)->runs) << text;
    LaunchIn(LaunchKind::kJobSet, text);
    PartFailureIn(text);
    LineIn(text).IgnoreError();
    ListIn(text).IgnoreError();
    MessageIn(text);
    IsAllowedIn(text);
  }
  EXPECT_FALSE(LineIn("{").ok());
  EXPECT_FALSE(ListIn("[]").ok());
}

TEST(Objects, WhatIsNestedWithoutEndIsLeftOut) {
  std::string deep(1'000'000, '[');
  EXPECT_FALSE(LineIn(deep).ok());
  deep += std::string(deep.size(), ']');
  const auto piece = ListIn(R"({"items":[)" + deep + "]}");
  ASSERT_TRUE(piece.ok());
  EXPECT_LE(piece->objects.at(0).size(), 200u);
}

TEST(Objects, LinesOfAWatchAreTakenByTheirKind) {
  const auto line = LineIn(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old","metadata":{}}})");
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->kind, WatchLine::Kind::kError);
  EXPECT_EQ(line->code, 410);
  const auto bookmark =
      LineIn(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"77"}}})");
  EXPECT_EQ(bookmark->kind, WatchLine::Kind::kBookmark);
  EXPECT_EQ(bookmark->version, "77");
}

TEST(Objects, AnExitCodeIsReadFromWhatKubernetesSays) {
  EXPECT_EQ(ExitCodeIn("Container muster failed with exit code 64 matching FailJob rule"), 64);
  EXPECT_EQ(ExitCodeIn("Container muster failed with exit code 67 matching FailJob rule"), 67);
  EXPECT_EQ(ExitCodeIn("Container muster failed with exit code 137 matching"), 1);
  EXPECT_EQ(ExitCodeIn("exit code "), 1);
  EXPECT_EQ(ExitCodeIn("BackoffLimitExceeded"), 1);
}

}  // namespace
}  // namespace muster::coordinator
