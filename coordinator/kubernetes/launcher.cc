#include "coordinator/kubernetes/launcher.h"

#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(60);
constexpr Duration kLongestDiscoveryPause = std::chrono::seconds(30);
constexpr Duration kLongestRightsPause = std::chrono::minutes(5);
constexpr Duration kLookForJobSets = std::chrono::seconds(60);
constexpr char kMerge[] = "application/merge-patch+json";
constexpr char kJson[] = "application/json";
constexpr char kJobs[] = "jobs", kJobSets[] = "jobsets", kPods[] = "pods";

Time Now() { return RealClock().Now(); }

void NoteSince(std::optional<Time>& since, bool is_so) {
  if (!is_so) return since.reset();
  if (!since) since = Now();
}

Duration TimeSince(const std::optional<Time>& since) {
  return since ? std::chrono::duration_cast<Duration>(Now() - *since) : Duration();
}

// What this coordinator is to be allowed, as deploy/k8s grants it.
struct Right {
  const char* group;
  const char* resource;
  const char* verb;
};
constexpr char kJobSetGroup[] = "jobset.x-k8s.io";
constexpr Right kRights[] = {
    {"batch", kJobs, "create"},
    {"batch", kJobs, "patch"},
    {"batch", kJobs, "delete"},
    {"batch", kJobs, "list"},
    {"batch", kJobs, "watch"},
    {"", kPods, "list"},
    {"", kPods, "watch"},
    {kJobSetGroup, kJobSets, "create"},
    {kJobSetGroup, kJobSets, "delete"},
    {kJobSetGroup, kJobSets, "list"},
    {kJobSetGroup, kJobSets, "watch"},
};

std::string ReviewOf(const std::string& name_space, const Right& right) {
  return absl::StrFormat(
      R"({"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{)"
      R"("resourceAttributes":{"namespace":"%s","group":"%s","resource":"%s","verb":"%s"}}})",
      name_space, right.group, right.resource, right.verb);
}

}  // namespace

Launcher::Launcher(LauncherOptions options)
    : options_(std::move(options)),
      place_(options_.place),
      api_(options_.server, stopping_),
      discovery_backoff_(std::random_device()(), options_.first_pause, kLongestDiscoveryPause),
      rights_backoff_(std::random_device()(), options_.look_for_rights, kLongestRightsPause),
      thread_([this] { Run(); }) {}

Launcher::~Launcher() {
  stopping_ = true;
  stop_.Stop();
  thread_.join();
}

void Launcher::Run() {
  const std::string selector = SelectorOf(place_.cluster);
  watchers_.push_back(std::make_unique<Watcher>(
      options_.server, CollectionOf(LaunchKind::kIndexedJob, place_.name_space), selector,
      EventsOf(LaunchKind::kIndexedJob)));
  watchers_.push_back(
      std::make_unique<Watcher>(options_.server, PodsOf(place_.name_space), selector, PodEvents()));
  while (!stopping_) {
    FindOut();
    LookAtRights();
    if (const LaunchesPtr wanted = options_.wanted()) {
      Look(*wanted);
      NoteTrouble(cannot_see_.empty() ? absl::StrJoin(lacks_, "; ") : cannot_see_);
    }
    if (stop_.WaitFor(kLook)) break;
  }
  job_sets_.reset();
  watchers_.clear();
}

void Launcher::NoteTrouble(const std::string& trouble) {
  options_.note_trouble(trouble);
  if (std::exchange(trouble_, trouble) == trouble) return;
  if (trouble.empty()) return LogInfo("nothing keeps this coordinator from making pods any more");
  LogWarning("no pods can be made for jobs: %s", trouble);
}

// Whether the cluster has JobSets, which may come later, and go; and, the first time, what we may
// do.
void Launcher::FindOut() {
  if (Now() < next_discovery_) return;
  if (place_.has_job_sets) {
    const MutexLock lock(mutex_);
    const auto it = kinds_.find(kJobSets);
    if (it == kinds_.end() || !absl::IsNotFound(it->second)) return;
  }
  const absl::StatusOr<KubeAnswer> found = api_.Ask("GET", "/apis/jobset.x-k8s.io/v1alpha2");
  const bool is_known = found.ok() && (found->status == 200 || found->status == 404);
  if (is_known) discovery_backoff_.Reset();
  next_discovery_ = Now() + (is_known ? kLookForJobSets
                                      : PauseFor(discovery_backoff_,
                                                 found.ok() ? found->retry_after : std::nullopt));
  discovery_ = is_known ? absl::OkStatus() : found.ok() ? StatusOfAnswer(*found) : found.status();
  if (!is_known) return;
  const bool is_first = !std::exchange(knows_kinds_, true);
  const bool had_job_sets = std::exchange(place_.has_job_sets, found->status == 200);
  if (had_job_sets && !place_.has_job_sets) {
    job_sets_.reset();
    const MutexLock lock(mutex_);
    kinds_.erase(kJobSets);
    ++changes_;
    std::erase_if(seen_.launches,
                  [](const auto& entry) { return entry.second.kind == LaunchKind::kJobSet; });
  }
  if (place_.has_job_sets && job_sets_ == nullptr)
    job_sets_ = std::make_unique<Watcher>(
        options_.server, CollectionOf(LaunchKind::kJobSet, place_.name_space),
        SelectorOf(place_.cluster), EventsOf(LaunchKind::kJobSet));
  if (!is_first && had_job_sets == place_.has_job_sets) return;
  LogInfo("jobs get pods in namespace %s of Kubernetes, by %s", place_.name_space,
          place_.has_job_sets ? "JobSets, and Indexed Jobs where their number may change"
                              : "Indexed Jobs, as it has no JobSets");
  look_at_rights_ = Now();
}

// And whether it could make anything of the template. Again and again as long as something is
// lacking.
void Launcher::LookAtRights() {
  if (!look_at_rights_ || Now() < *look_at_rights_) return;
  std::set<std::string> lacks;
  for (const Right& right : kRights) {
    if (absl::string_view(right.group) == kJobSetGroup && !place_.has_job_sets) continue;
    const absl::StatusOr<KubeAnswer> answer =
        api_.Ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                 ReviewOf(place_.name_space, right), kJson);
    if (!answer.ok() || answer->status != 201)
      return AskAgain(std::move(lacks), answer.ok() ? answer->retry_after : std::nullopt);
    if (IsAllowedIn(answer->body)) continue;
    const std::string lack = absl::StrFormat(
        "the service account of this coordinator may not %s %s in namespace %s of "
        "Kubernetes: grant it, as deploy/k8s/base does; jobs get no pods without it",
        right.verb, right.resource, place_.name_space);
    lacks.insert(lack);
  }
  std::optional<Duration> retry_after;
  const absl::StatusOr<std::string> refusal = RefusalOfTemplate(retry_after);
  if (!refusal.ok()) return AskAgain(std::move(lacks), retry_after);
  if (!refusal->empty()) lacks.insert(*refusal);
  rights_backoff_.Reset();
  lacks_ = std::move(lacks);
  look_at_rights_ = lacks_.empty() ? std::nullopt : std::optional(Now() + options_.look_for_rights);
}

// Nobody knows all: what was known stays, and all is asked again.
void Launcher::AskAgain(std::set<std::string> lacks, std::optional<Duration> retry_after) {
  lacks_.merge(lacks);
  look_at_rights_ = Now() + PauseFor(rights_backoff_, retry_after);
}

// Why Kubernetes would make nothing of the template, or in the namespace, whatever job it is for;
// empty: it would. An error: it does not say.
absl::StatusOr<std::string> Launcher::RefusalOfTemplate(std::optional<Duration>& retry_after) {
  static const Launch kExample = {
      .name = "muster-template", .job = "muster-template", .hosts = 1, .is_elastic = true};
  if (has_made_one_) return "";
  MUSTER_ASSIGN_OR_RETURN(const KubeAnswer tried, Create(kExample, "&dryRun=All"));
  retry_after = tried.retry_after;
  const absl::Status refusal = StatusOfAnswer(tried);
  // Of who decides about single objects, perhaps by labels that jobs have and this one has not.
  const bool is_of_policy = IsRefusedByPolicy(tried.body);
  if (refusal.ok() || is_of_policy || absl::IsPermissionDenied(refusal)) return "";
  if (absl::IsInvalidArgument(refusal))
    return absl::StrCat("no job can have pods of this template: ", refusal.message(),
                        "; correct --launch-pod and start the coordinator again");
  if (absl::IsNotFound(refusal))
    return absl::StrCat("no pods can be made in namespace ", place_.name_space, ": ",
                        refusal.message(), "; make it, or name another one (--launch-namespace)");
  return refusal;
}

WatcherEvents Launcher::EventsOf(LaunchKind kind) {
  const std::string name = kind == LaunchKind::kJobSet ? kJobSets : kJobs;
  return {.on_list =
              [this, kind](const std::vector<std::string>& objects) {
                SeenCluster listed;
                for (const std::string& object : objects) Put(kind, object, listed);
                const MutexLock lock(mutex_);
                ++changes_;
                std::erase_if(seen_.launches,
                              [&](const auto& entry) { return entry.second.kind == kind; });
                seen_.launches.merge(listed.launches);
                if (kind == LaunchKind::kIndexedJob)
                  seen_.part_failures = std::move(listed.part_failures);
              },
          .on_put =
              [this, kind](const std::string& object) {
                const MutexLock lock(mutex_);
                ++changes_;
                Put(kind, object, seen_);
              },
          .on_gone =
              [this, kind](const std::string& object) {
                const std::optional<SeenLaunch> gone = LaunchIn(kind, object);
                const std::optional<PartFailure> part = PartFailureIn(object);
                const MutexLock lock(mutex_);
                ++changes_;
                if (part) seen_.part_failures.erase(part->launch);
                if (!gone) return;
                const auto it = seen_.launches.find(gone->name);
                if (it != seen_.launches.end() && it->second.uid == gone->uid)
                  seen_.launches.erase(it);
              },
          .on_trouble =
              [this, name](const absl::Status& why) {
                const MutexLock lock(mutex_);
                kinds_[name] = why;
              }};
}

void Launcher::Put(LaunchKind kind, const std::string& object, SeenCluster& into) {
  const std::optional<SeenLaunch> seen = LaunchIn(kind, object);
  const std::optional<PartFailure> part = PartFailureIn(object);
  if (part) into.part_failures[part->launch] = part->why;
  if (seen) into.launches.insert_or_assign(seen->name, *seen);
}

WatcherEvents Launcher::PodEvents() {
  const auto put = [](const std::string& object, SeenCluster& into) {
    const std::optional<SeenPod> pod = PodIn(object);
    if (pod) into.pods[pod->launch].insert_or_assign(pod->name, *pod);
  };
  return {.on_list =
              [this, put](const std::vector<std::string>& objects) {
                SeenCluster listed;
                for (const std::string& object : objects) put(object, listed);
                const MutexLock lock(mutex_);
                ++changes_;
                seen_.pods = std::move(listed.pods);
              },
          .on_put =
              [this, put](const std::string& object) {
                const MutexLock lock(mutex_);
                ++changes_;
                put(object, seen_);
              },
          .on_gone =
              [this](const std::string& object) {
                const std::optional<SeenPod> gone = PodIn(object);
                if (!gone) return;
                const MutexLock lock(mutex_);
                ++changes_;
                const auto it = seen_.pods.find(gone->launch);
                if (it == seen_.pods.end()) return;
                it->second.erase(gone->name);
                if (it->second.empty()) seen_.pods.erase(it);
              },
          .on_trouble =
              [this](const absl::Status& why) {
                const MutexLock lock(mutex_);
                kinds_[kPods] = why;
              }};
}

// Null: not all of it has been listed yet. Valid until the next call.
const SeenCluster* Launcher::Seen() {
  const MutexLock lock(mutex_);
  std::vector<std::string> kinds = {kJobs, kPods};
  if (place_.has_job_sets) kinds.emplace_back(kJobSets);
  for (const std::string& kind : kinds)
    if (!kinds_.contains(kind)) return nullptr;
  if (std::exchange(copy_of_changes_, changes_) != changes_) copy_ = seen_;
  return &copy_;
}

void Launcher::Look(const Launches& wanted) {
  const SeenCluster* const seen = knows_kinds_ ? Seen() : nullptr;
  cannot_see_ = std::string(discovery_.message());
  {
    const MutexLock lock(mutex_);
    for (const auto& [kind, why] : kinds_)
      if (!why.ok()) cannot_see_ = std::string(why.message());
  }
  if (seen == nullptr && cannot_see_.empty()) return;
  // Who cannot see what there is changes nothing: it might make something twice, or end the wrong.
  if (cannot_see_.empty()) TakeSteps(StepsFor(wanted, *seen, Stuck(wanted, *seen)));
  std::set<std::string> names;
  for (const Launch& launch : wanted) names.insert(launch.name);
  if (seen != nullptr)
    for (const auto& [name, there] : seen->launches) names.insert(name);
  std::erase_if(known_, [&](const auto& entry) { return !names.contains(entry.first); });
  static const SeenCluster kNothing;
  Tell(wanted, seen == nullptr ? kNothing : *seen);
}

void Launcher::TakeSteps(const std::vector<LaunchStep>& steps) {
  const auto name_of = [](const LaunchStep& step) {
    return step.kind == LaunchStep::Kind::kEnd ? step.seen.name : step.launch.name;
  };
  std::set<std::string> names;
  for (const LaunchStep& step : steps) names.insert(name_of(step));
  // What there is nothing to do for has no trouble any more, whatever came of the last try.
  for (auto& [name, known] : known_)
    if (!names.contains(name)) known.trouble.reset();
  for (const LaunchStep& step : steps) {
    if (stopping_) return;
    const bool makes = step.kind == LaunchStep::Kind::kMake;
    const std::optional<LaunchTrouble>& before = known_[name_of(step)].trouble;
    if (before && (Now() < before->next || (makes && !before->failure.empty()))) continue;
    std::optional<Duration> retry_after;
    const absl::Status done = Take(step, retry_after);
    Note(step, done, retry_after);
    // The API may hang, each time for long: the others wait for the next look, which tells why.
    if (absl::IsUnavailable(done) && step.kind != LaunchStep::Kind::kFree) return;
  }
}

absl::Status Launcher::Take(const LaunchStep& step, std::optional<Duration>& retry_after) {
  absl::StatusOr<KubeAnswer> answer;
  switch (step.kind) {
    case LaunchStep::Kind::kMake: {
      const LaunchKind kind = KindOf(step.launch, place_);
      // No apply, which would change what bears that name and is somebody else's.
      answer = Create(step.launch, "");
      std::optional<SeenLaunch> made;
      if (answer.ok() && answer->status == 409 && IsThereAlready(answer->body)) {
        MUSTER_ASSIGN_OR_RETURN(made, Find(kind, step.launch.name));
        if (!made)
          return absl::AbortedError(
              absl::StrCat(StatusOfAnswer(*answer).message(),
                           ", and lacks the labels of what this coordinator makes: it stays as it "
                           "is, and the job waits until somebody deletes it"));
      } else if (answer.ok() && answer->status >= 200 && answer->status < 300) {
        made = LaunchIn(kind, answer->body);
        if (!made || made->name != step.launch.name)
          return absl::UnavailableError(absl::StrCat(
              "the Kubernetes API answers ", answer->status,
              ", and not with what it was to make; does something stand between it and us?"));
        has_made_one_ = true;
      }
      // It is seen a moment later: until then nothing else is to be made of it.
      if (made) {
        const MutexLock lock(mutex_);
        ++changes_;
        seen_.launches.try_emplace(made->name, *made);
        return absl::OkStatus();
      }
      break;
    }
    case LaunchStep::Kind::kResize:
      answer = api_.Ask("PATCH",
                        absl::StrCat(PathOf(step.seen.kind, place_.name_space, step.launch.name),
                                     "?fieldManager=muster"),
                        SizePatch(step.launch.hosts), kMerge);
      break;
    case LaunchStep::Kind::kFree:
      // It is not made, but what Kubernetes says to that tells how it stands with the namespace.
      answer = Create(step.launch, "&dryRun=All");
      MUSTER_RETURN_IF_ERROR(answer.status());
      if (!IsNamespaceEnding(answer->body)) {
        retry_after = answer->retry_after;
        return absl::UnavailableError(kKeepsItsDead);
      }
      [[fallthrough]];
    case LaunchStep::Kind::kEnd:
      // Another coordinator may know more than this one.
      MUSTER_RETURN_IF_ERROR(options_.check_claim());
      answer = api_.Ask("DELETE", PathOf(step.seen.kind, place_.name_space, step.seen.name),
                        DeletionOf(step.seen), kJson);
      if (answer.ok() && (answer->status < 300 || answer->status == 404)) {
        const MutexLock lock(mutex_);
        ++changes_;
        const auto it = seen_.launches.find(step.seen.name);
        if (it != seen_.launches.end() && it->second.uid == step.seen.uid)
          it->second.is_ending = true;
        return absl::OkStatus();
      }
      break;
  }
  MUSTER_RETURN_IF_ERROR(answer.status());
  retry_after = answer->retry_after;
  return StatusOfAnswer(*answer);
}

absl::StatusOr<KubeAnswer> Launcher::Create(const Launch& launch, const char* more_query) {
  return api_.Ask("POST",
                  absl::StrCat(CollectionOf(KindOf(launch, place_), place_.name_space),
                               "?fieldManager=muster&fieldValidation=Strict", more_query),
                  ObjectOf(launch, place_), kJson);
}

// One of ours, whatever the watches have brought of it. Nothing: there is none.
absl::StatusOr<std::optional<SeenLaunch>> Launcher::Find(LaunchKind kind, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const KubeAnswer answer,
                          api_.Ask("GET", absl::StrCat(CollectionOf(kind, place_.name_space), "?",
                                                       SelectorOf(place_.cluster),
                                                       "&fieldSelector=metadata.name%3D", name)));
  MUSTER_RETURN_IF_ERROR(StatusOfAnswer(answer));
  MUSTER_ASSIGN_OR_RETURN(const ListPiece found, ListIn(answer.body));
  for (const std::string& object : found.objects)
    if (const auto seen = LaunchIn(kind, object); seen && seen->name == name) return seen;
  return std::nullopt;
}

void Launcher::Note(const LaunchStep& step, const absl::Status& done,
                    std::optional<Duration> retry_after) {
  const bool ends = step.kind == LaunchStep::Kind::kEnd || step.kind == LaunchStep::Kind::kFree;
  const bool resizes = step.kind == LaunchStep::Kind::kResize;
  const std::string& name = ends ? step.seen.name : step.launch.name;
  if (done.ok()) {
    known_[name].trouble.reset();
    LogInfo(
        "%s %s in Kubernetes%s",
        ends      ? "ends"
        : resizes ? "resizes"
                  : "makes",
        name,
        ends ? ""
             : absl::StrCat(": ", Plural(step.launch.hosts, "pod"), " of job ", step.launch.job));
    return;
  }
  if (absl::IsCancelled(done)) return;
  std::optional<LaunchTrouble>& known = known_[name].trouble;
  if (!known)
    known = {.backoff = Backoff(std::random_device()(), options_.first_pause, kLongestPause)};
  LaunchTrouble& trouble = *known;
  const std::string text(done.message());
  if (trouble.text != text) LogWarning("%s: %s", name, text);
  trouble.text = text;
  // The same object will be refused again.
  if (absl::IsInvalidArgument(done) && step.kind == LaunchStep::Kind::kMake) trouble.failure = text;
  if (absl::IsPermissionDenied(done)) {
    trouble.backoff.BeLongest();
    if (!look_at_rights_) look_at_rights_ = Now();
  }
  trouble.next = Now() + PauseFor(trouble.backoff, retry_after);
}

std::set<std::string> Launcher::Stuck(const Launches& wanted, const SeenCluster& seen) {
  std::set<std::string> stuck;
  for (const Launch& launch : wanted) {
    std::optional<Time>& since = known_[launch.name].keeps_its_dead_since;
    NoteSince(since, KeepsItsDead(seen, launch.name));
    if (since && TimeSince(since) >= options_.dead_are_kept) stuck.insert(launch.name);
  }
  return stuck;
}

void Launcher::Tell(const Launches& wanted, const SeenCluster& seen) {
  for (const Launch& launch : wanted) {
    const auto there = seen.launches.find(launch.name);
    const bool is_there = there != seen.launches.end();
    KnownLaunch& known = known_[launch.name];
    NoteSince(known.without_image_since, LacksImage(seen, launch.name));
    NoteSince(known.being_prepared_since, IsBeingPrepared(seen, launch.name));
    NoteSince(known.made_at, is_there || known.made_at.has_value());
    NoteSince(known.failed_at, is_there && !there->second.failure.empty());
    LaunchTold told = ToldOf(launch, seen,
                             {.without_image = TimeSince(known.without_image_since),
                              .being_prepared = TimeSince(known.being_prepared_since),
                              .since_made = TimeSince(known.made_at),
                              .since_failed = TimeSince(known.failed_at)});
    if (known.trouble && told.failure.empty()) {
      told.why = known.trouble->text;
      told.failure = known.trouble->failure;
      told.is_over = !told.failure.empty();
      told.exit_code = told.is_over ? kExitBadConfiguration : 1;
    }
    if (!cannot_see_.empty() && told.failure.empty()) told.why = cannot_see_;
    if (known.told != told && options_.tell(told)) known.told = std::move(told);
  }
}

}  // namespace muster::coordinator
