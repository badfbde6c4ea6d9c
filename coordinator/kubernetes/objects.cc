#include "coordinator/kubernetes/objects.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/digits.h"
#include "lib/base/exit_codes.h"
#include "lib/base/hash.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/document.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using Json = nlohmann::json;

constexpr char kOfCluster[] = "muster.dev/cluster";
constexpr char kOfLaunch[] = "muster.dev/launch";
constexpr char kOfJob[] = "muster.dev/job";  // an annotation: an id may be no label's value
constexpr char kQueueOfKueue[] = "kueue.x-k8s.io/queue-name";
constexpr char kElasticInKueue[] = "kueue.x-k8s.io/elastic-job";
constexpr char kContainer[] = "muster";
constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kSetOfPods[] = "hosts";  // of a JobSet
constexpr size_t kLongestMessage = 1000;
constexpr size_t kLongestLabel = 63;
constexpr int kMostPodFailures = 100;  // of a host, at pauses of up to six minutes: some hours

// What is nested deeper is left out: nothing of Kubernetes is, and each level takes a hundred times
// its bytes.
constexpr int kDeepest = 64;

// A page of pods has some ten thousand; of as many small ones as fit into the bytes that are taken
// each would need a hundred times its own.
constexpr int64_t kMostValues = 4'000'000;

// Discarded: it is no JSON, or too much.
Json Parse(absl::string_view text) {
  int64_t values = 0;
  const auto keeps = [&](int depth, Json::parse_event_t, Json&) {
    return ++values <= kMostValues && depth <= kDeepest;
  };
  Json json = Json::parse(text.begin(), text.end(), keeps, /*allow_exceptions=*/false);
  return values <= kMostValues ? json : Json(Json::value_t::discarded);
}

// null where there is no such thing.
const Json& At(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

const Json& At(const Json& object, const char* key, const char* then) {
  return At(At(object, key), then);
}

std::string TextOf(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

int32_t NumberOf(const Json& value) { return value.is_number_integer() ? value.get<int32_t>() : 0; }

bool IsTrue(const Json& value) { return value.is_boolean() && value.get<bool>(); }

Json LabelsOf(const Launch& launch, const LaunchPlace& place) {
  return {{"app.kubernetes.io/name", "muster-job"},
          {"app.kubernetes.io/managed-by", "muster"},
          {kOfCluster, LabelOf(place.cluster)},
          {kOfLaunch, launch.name}};
}

// Exit codes are those of docs/operations.md: what the same pod anew would not mend ends the job.
const std::vector<int>& CodesThatFail() {
  static const std::vector<int> kCodes = {kExitBadConfiguration, kExitBadData,
                                          kExitNotFinite,        kExitStopped,
                                          kExitNoPlugin,         kExitOtherEnvironment};
  return kCodes;
}

Json FailurePolicy() {
  return {
      {"rules",
       {{{"action", "FailJob"}, {"onExitCodes", {{"operator", "In"}, {"values", CodesThatFail()}}}},
        {{"action", "Ignore"}, {"onExitCodes", {{"operator", "In"}, {"values", {kExitLater}}}}},
        {{"action", "Ignore"}, {"onPodConditions", {{{"type", "DisruptionTarget"}}}}}}}};
}

Json PodOf(const Launch& launch, const LaunchPlace& place) {
  Json pod = Parse(place.pod);
  Json& labels = pod["metadata"]["labels"];
  labels.update(LabelsOf(launch, place));
  pod["metadata"]["annotations"][kOfJob] = launch.job;
  if (launch.devices_each > 0)
    for (Json& container : pod["spec"]["containers"])
      if (TextOf(At(container, "name")) == kContainer)
        container["resources"]["limits"][kGpu] = launch.devices_each;
  return pod;
}

Json JobSpecOf(const Launch& launch, const LaunchPlace& place) {
  return {{"completionMode", "Indexed"},
          {"completions", launch.hosts},
          {"parallelism", launch.hosts},
          {"backoffLimitPerIndex", kMostPodFailures},
          {"maxFailedIndexes", 0},
          {"podReplacementPolicy", "Failed"},
          {"podFailurePolicy", FailurePolicy()},
          {"template", PodOf(launch, place)}};
}

// Labels of the job are those of the object: Kueue, for one, looks for its queue there.
Json MetadataOf(const Launch& launch, const LaunchPlace& place) {
  Json labels = launch.labels;
  if (labels.is_null()) labels = Json::object();
  Json annotations = {{kOfJob, launch.job}};
  // Else Kueue would suspend all pods of a job in one of its queues when their number changes.
  if (launch.is_elastic && labels.contains(kQueueOfKueue)) annotations[kElasticInKueue] = "true";
  labels.update(LabelsOf(launch, place));
  return {{"name", launch.name},
          {"namespace", place.name_space},
          {"labels", labels},
          {"annotations", annotations}};
}

const Json* ConditionOf(const Json& object, absl::string_view type) {
  const Json& conditions = At(object, "status", "conditions");
  if (!conditions.is_array()) return nullptr;
  for (const Json& condition : conditions)
    if (TextOf(At(condition, "type")) == type && TextOf(At(condition, "status")) == "True")
      return &condition;
  return nullptr;
}

std::string WhyOf(const Json& condition) {
  const std::string reason = TextOf(At(condition, "reason"));
  const std::string message = TextOf(At(condition, "message"));
  if (message.empty()) return reason;
  return reason.empty() ? message : absl::StrCat(reason, ": ", message);
}

// What a container waits for that no time alone will bring.
const std::set<std::string>& HasNoImage() {
  static const std::set<std::string> kReasons = {"ErrImagePull", "ImagePullBackOff",
                                                 "InvalidImageName", "ErrImageNeverPull"};
  return kReasons;
}

// The end of a log, which the kubelet puts there (terminationMessagePolicy: FallbackToLogsOnError).
std::string LastWordsIn(const Json& terminated) {
  constexpr size_t kMost = 400;
  std::string words(absl::StripAsciiWhitespace(TextOf(At(terminated, "message"))));
  std::replace(words.begin(), words.end(), '\n', ' ');
  if (words.size() <= kMost) return words;
  size_t begin = words.size() - kMost;
  while (begin < words.size() && (static_cast<unsigned char>(words[begin]) & 0xC0) == 0x80) ++begin;
  return absl::StrCat("…", words.substr(begin));
}

void LookAtEnd(const Json& terminated, SeenPod& seen) {
  const int code = NumberOf(At(terminated, "exitCode"));
  if (code == 0 || seen.exit_code != 0) return;
  seen.exit_code = code;
  seen.ended_at = TextOf(At(terminated, "finishedAt"));
  seen.last_words = LastWordsIn(terminated);
  const std::string reason = TextOf(At(terminated, "reason"));
  if (seen.cause.empty() && reason != "Error") seen.cause = reason;
}

void LookAtContainers(const Json& containers, SeenPod& seen) {
  if (!containers.is_array()) return;
  for (const Json& container : containers) {
    if (seen.has_failed) LookAtEnd(At(container, "state", "terminated"), seen);
    const Json& waiting = At(container, "state", "waiting");
    const std::string reason = TextOf(At(waiting, "reason"));
    const bool is_being_prepared = reason == "ContainerCreating" || reason == "PodInitializing";
    seen.is_being_prepared |= is_being_prepared;
    if (reason.empty() || is_being_prepared || seen.has_no_image) continue;
    seen.waits_for = WhyOf(waiting);
    seen.has_no_image = HasNoImage().contains(reason);
  }
}

}  // namespace

std::string LabelOf(const std::string& cluster) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  const bool is_one = !cluster.empty() && cluster.size() <= kLongestLabel &&
                      std::all_of(cluster.begin(), cluster.end(), fits) &&
                      absl::ascii_isalnum(static_cast<unsigned char>(cluster.back()));
  if (is_one) return cluster;
  return absl::StrFormat("id-%016x", HashBytes({cluster.data(), cluster.size()}));
}

absl::StatusOr<std::string> ParsePodTemplate(const std::string& text, const std::string& source) {
  MUSTER_ASSIGN_OR_RETURN(Document document, ParseYamlDocument(text, source));
  Json pod = std::move(document.root);
  if (!pod.is_object())
    return absl::InvalidArgumentError("it is no object with `metadata` and `spec`, as of a pod");
  if (pod.contains("template")) pod = Json(pod["template"]);  // of a PodTemplate
  const Json& containers = At(pod, "spec", "containers");
  const bool has_it =
      containers.is_array() && std::any_of(containers.begin(), containers.end(), [](const Json& c) {
        return TextOf(At(c, "name")) == kContainer;
      });
  if (!has_it)
    return absl::InvalidArgumentError(
        "`spec.containers` has none that is called muster, in which muster agent runs");
  if (!pod["metadata"].is_null() && !pod["metadata"].is_object())
    return absl::InvalidArgumentError("`metadata` is no map");
  for (const Json& container : containers) {
    const Json& resources = At(container, "resources");
    for (const Json* map : {&resources, &At(resources, "limits")})
      if (!map->is_null() && !map->is_object())
        return absl::InvalidArgumentError("`resources` of a container is no map of maps");
  }
  for (const char* key : {"labels", "annotations"}) {
    Json& map = pod["metadata"][key];
    if (map.is_null()) map = Json::object();
    if (!map.is_object())
      return absl::InvalidArgumentError(absl::StrCat("`metadata.", key, "` is no map"));
  }
  // Only so does a pod's exit code count for the job.
  pod["spec"]["restartPolicy"] = "Never";
  return pod.dump();
}

LaunchKind KindOf(const Launch& launch, const LaunchPlace& place) {
  return launch.is_elastic || !place.has_job_sets ? LaunchKind::kIndexedJob : LaunchKind::kJobSet;
}

std::string CollectionOf(LaunchKind kind, const std::string& name_space) {
  return kind == LaunchKind::kJobSet
             ? absl::StrCat("/apis/jobset.x-k8s.io/v1alpha2/namespaces/", name_space, "/jobsets")
             : absl::StrCat("/apis/batch/v1/namespaces/", name_space, "/jobs");
}

std::string PathOf(LaunchKind kind, const std::string& name_space, const std::string& name) {
  return absl::StrCat(CollectionOf(kind, name_space), "/", name);
}

std::string PodsOf(const std::string& name_space) {
  return absl::StrCat("/api/v1/namespaces/", name_space, "/pods");
}

std::string SelectorOf(const std::string& cluster) {
  return absl::StrCat("labelSelector=muster.dev%2Fcluster%3D", LabelOf(cluster));
}

std::string ObjectOf(const Launch& launch, const LaunchPlace& place) {
  Json object = {{"metadata", MetadataOf(launch, place)}};
  if (KindOf(launch, place) == LaunchKind::kIndexedJob) {
    object["apiVersion"] = "batch/v1";
    object["kind"] = "Job";
    object["spec"] = JobSpecOf(launch, place);
    return object.dump();
  }
  object["apiVersion"] = "jobset.x-k8s.io/v1alpha2";
  object["kind"] = "JobSet";
  object["spec"] = {{"failurePolicy", {{"maxRestarts", 0}}},
                    {"replicatedJobs",
                     {{{"name", kSetOfPods},
                       {"replicas", 1},
                       {"template",
                        {{"metadata", {{"labels", LabelsOf(launch, place)}}},
                         {"spec", JobSpecOf(launch, place)}}}}}}};
  return object.dump();
}

std::string SizePatch(int32_t hosts) {
  return Json({{"spec", {{"completions", hosts}, {"parallelism", hosts}}}}).dump();
}

std::optional<SeenLaunch> LaunchIn(LaunchKind kind, absl::string_view json) {
  const Json object = Parse(json);
  const Json& metadata = At(object, "metadata");
  SeenLaunch seen{.name = TextOf(At(metadata, "name")),
                  .uid = TextOf(At(metadata, "uid")),
                  .kind = kind,
                  .is_ending = !At(metadata, "deletionTimestamp").is_null(),
                  .is_suspended = IsTrue(At(object, "spec", "suspend"))};
  // The Job of a JobSet bears the labels of its pods, and another name.
  if (seen.name.empty() || TextOf(At(At(metadata, "labels"), kOfLaunch)) != seen.name)
    return std::nullopt;
  const bool is_set = kind == LaunchKind::kJobSet;
  const Json& sets = At(object, "spec", "replicatedJobs");
  const Json* spec = &At(object, "spec");
  if (is_set && sets.is_array() && !sets.empty()) spec = &At(sets.front(), "template", "spec");
  seen.hosts = NumberOf(At(*spec, "completions"));
  seen.is_complete = ConditionOf(object, is_set ? "Completed" : "Complete") != nullptr;
  if (const Json* failed = ConditionOf(object, "Failed")) seen.failure = WhyOf(*failed);
  return seen;
}

std::optional<PartFailure> PartFailureIn(absl::string_view json) {
  const Json object = Parse(json);
  const Json& metadata = At(object, "metadata");
  const std::string launch = TextOf(At(At(metadata, "labels"), kOfLaunch));
  const Json* const failed = ConditionOf(object, "Failed");
  if (launch.empty() || launch == TextOf(At(metadata, "name")) || failed == nullptr)
    return std::nullopt;
  return PartFailure{launch, WhyOf(*failed)};
}

std::string DeletionOf(const SeenLaunch& seen) {
  return Json({{"apiVersion", "v1"},
               {"kind", "DeleteOptions"},
               {"propagationPolicy", "Background"},
               {"preconditions", {{"uid", seen.uid}}}})
      .dump();
}

bool IsAllowedIn(absl::string_view json) { return IsTrue(At(Parse(json), "status", "allowed")); }

std::optional<SeenPod> PodIn(absl::string_view json) {
  const Json pod = Parse(json);
  const Json& metadata = At(pod, "metadata");
  SeenPod seen{.name = TextOf(At(metadata, "name")),
               .launch = TextOf(At(At(metadata, "labels"), kOfLaunch)),
               .is_ending = !At(metadata, "deletionTimestamp").is_null()};
  if (seen.name.empty() || seen.launch.empty()) return std::nullopt;
  const std::string phase = TextOf(At(pod, "status", "phase"));
  const bool has_ended = phase == "Succeeded" || phase == "Failed";
  seen.is_kept = seen.is_ending && has_ended;
  if (has_ended) seen.is_ending = true;
  seen.runs = phase == "Running" && !seen.is_ending;
  const Json& status = At(pod, "status");
  seen.has_failed = phase == "Failed" && !seen.is_kept;
  if (seen.has_failed) seen.cause = WhyOf(status);
  if (seen.has_failed || phase == "Pending")
    for (const char* containers : {"initContainerStatuses", "containerStatuses"})
      LookAtContainers(At(status, containers), seen);
  if (phase != "Pending") return seen;
  const Json& conditions = At(pod, "status", "conditions");
  if (conditions.is_array())
    for (const Json& condition : conditions)
      if (TextOf(At(condition, "type")) == "PodScheduled" &&
          TextOf(At(condition, "status")) == "False")
        seen.waits_for = WhyOf(condition);
  return seen;
}

absl::StatusOr<ListPiece> ListIn(absl::string_view json) {
  const Json list = Parse(json);
  const Json& items = At(list, "items");
  if (!list.is_object() || !(items.is_array() || items.is_null()))
    return absl::DataLossError("the Kubernetes API answers with something that is no list");
  ListPiece piece{.version = TextOf(At(list, "metadata", "resourceVersion")),
                  .next_piece = TextOf(At(list, "metadata", "continue"))};
  for (const Json& item : items) piece.objects.push_back(item.dump());
  return piece;
}

absl::StatusOr<WatchLine> LineIn(absl::string_view line) {
  const Json json = Parse(line);
  const std::string type = TextOf(At(json, "type"));
  const Json& object = At(json, "object");
  if (!object.is_object())
    return absl::DataLossError("a line of a watch of the Kubernetes API is no event");
  WatchLine out{.version = TextOf(At(object, "metadata", "resourceVersion"))};
  if (type == "ERROR") {
    out.code = NumberOf(At(object, "code"));
    out.message = TextOf(At(object, "message"));
    return out;
  }
  out.kind = type == "DELETED"    ? WatchLine::Kind::kGone
             : type == "BOOKMARK" ? WatchLine::Kind::kBookmark
                                  : WatchLine::Kind::kPut;
  if (out.kind != WatchLine::Kind::kBookmark) out.object = object.dump();
  return out;
}

std::string MessageIn(absl::string_view body) {
  const std::string message = TextOf(At(Parse(body), "message"));
  return Cut(Printable(message.empty() ? std::string(body.substr(0, kLongestMessage)) : message),
             kLongestMessage);
}

bool IsThereAlready(absl::string_view body) {
  return TextOf(At(Parse(body), "reason")) == "AlreadyExists";
}

bool IsRefusedByPolicy(absl::string_view body) {
  const std::string message = TextOf(At(Parse(body), "message"));
  return absl::StrContains(message, "denied the request") ||
         absl::StrContains(message, "denied request");
}

bool IsNamespaceEnding(absl::string_view body) {
  const Json answer = Parse(body);
  const Json& causes = At(answer, "details", "causes");
  return causes.is_array() && std::any_of(causes.begin(), causes.end(), [](const Json& cause) {
           return TextOf(At(cause, "reason")) == "NamespaceTerminating";
         });
}

int ExitCodeIn(const std::string& failure) {
  const std::string before = "exit code ";
  const size_t at = failure.find(before);
  if (at == std::string::npos) return kExitFailed;
  const std::string rest = failure.substr(at + before.size());
  const size_t digits = rest.find_first_not_of("0123456789");
  int code = 0;
  const bool is_one = ParseDigits(rest.substr(0, digits), &code);
  const auto& codes = CodesThatFail();
  return is_one && std::find(codes.begin(), codes.end(), code) != codes.end() ? code : kExitFailed;
}

}  // namespace muster::coordinator
