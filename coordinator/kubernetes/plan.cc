#include "coordinator/kubernetes/plan.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

constexpr Duration kImagePatience = std::chrono::minutes(10);
constexpr Duration kPreparedPatience = std::chrono::seconds(30);
constexpr Duration kPartPatience = std::chrono::seconds(5);
constexpr Duration kPodsPatience = std::chrono::seconds(10);  // until controllers have made them

const std::map<std::string, SeenPod>& PodsIn(const SeenCluster& seen, const std::string& launch) {
  static const std::map<std::string, SeenPod> kNone;
  const auto it = seen.pods.find(launch);
  return it == seen.pods.end() ? kNone : it->second;
}

std::string NameOf(const SeenLaunch& seen) {
  return absl::StrCat(seen.kind == LaunchKind::kJobSet ? "JobSet " : "Job ", seen.name);
}

bool HasOne(const SeenCluster& seen, const std::string& launch, bool SeenPod::*holds) {
  const auto& pods = PodsIn(seen, launch);
  return std::any_of(pods.begin(), pods.end(), [holds](const auto& entry) {
    return entry.second.*holds && !entry.second.is_ending;
  });
}

// With that exit code, or else the last that did; null: none has. Times of nodes whose clocks
// differ may name another one.
const SeenPod* OneThatFailed(const std::map<std::string, SeenPod>& pods, int exit_code) {
  const SeenPod* one = nullptr;
  const auto rank = [exit_code](const SeenPod& pod) {
    return std::pair(pod.exit_code == exit_code && !pod.last_words.empty(), pod.ended_at);
  };
  for (const auto& [name, pod] : pods)
    if (pod.has_failed && (one == nullptr || rank(*one) < rank(pod))) one = &pod;
  return one;
}

std::string EndOf(const SeenPod& pod) {
  std::string text = absl::StrCat("pod ", pod.name, " has failed");
  if (pod.exit_code != 0) absl::StrAppend(&text, " with ", pod.exit_code);
  if (!pod.cause.empty()) absl::StrAppend(&text, " (", pod.cause, ")");
  if (pod.cause == "OOMKilled")
    absl::StrAppend(&text, ": give the container more memory in the template of pods");
  if (!pod.last_words.empty()) absl::StrAppend(&text, "; its last words: ", pod.last_words);
  return text;
}

struct CountedPods {
  int32_t there = 0, run = 0, failed = 0;
  std::string waits_for;  // what one of them says it waits for, an image before all else
  std::string prepared;   // one that is
};

CountedPods Count(const std::map<std::string, SeenPod>& pods) {
  CountedPods counted;
  for (const auto& [name, pod] : pods) {
    if (pod.has_failed) ++counted.failed;
    if (pod.is_ending) continue;
    ++counted.there;
    if (pod.runs) ++counted.run;
    if (pod.is_being_prepared) counted.prepared = name;
    if (!pod.waits_for.empty() && (counted.waits_for.empty() || pod.has_no_image))
      counted.waits_for = absl::StrCat("pod ", name, ": ", pod.waits_for);
  }
  return counted;
}

// What keeps some of its pods from running; empty: nothing that is known.
std::string WhyNotAll(const Launch& launch, const SeenLaunch& there, const SeenCluster& seen,
                      const CountedPods& pods, const LaunchTimes& times) {
  if (there.is_ending) return "it was deleted, and is made again once it is gone";
  if (there.is_suspended) return "it is suspended: Kueue, or a person, is to let it run";
  if (!pods.waits_for.empty()) return pods.waits_for;
  if (KeepsItsDead(seen, launch.name)) return kKeepsItsDead;
  if (times.being_prepared >= kPreparedPatience)
    return absl::StrCat("pod ", pods.prepared,
                        " is still being prepared on its node: its image may be large, or a "
                        "volume, secret or config map that the template of pods names may be "
                        "missing; kubectl describe pod -A -l muster.dev/launch=",
                        launch.name, " tells more");
  if (pods.failed > 0)
    return absl::StrCat(EndOf(*OneThatFailed(PodsIn(seen, launch.name), 0)),
                        "; another takes its place after a pause that grows each time (",
                        Plural(pods.failed, "failure"), " so far)");
  if (pods.there < std::min(launch.hosts, there.hosts) && times.since_made >= kPodsPatience)
    return absl::StrCat("Kubernetes has made ", Plural(pods.there, "pod"),
                        ": a quota of its namespace, or its pod security, may stand in the way; "
                        "kubectl describe job -A -l muster.dev/launch=",
                        launch.name, " tells which");
  if (there.kind == LaunchKind::kJobSet && there.hosts < launch.hosts)
    return "a JobSet keeps its number of pods: stop the job and resume it";
  return "";
}

}  // namespace

std::vector<LaunchStep> StepsFor(const Launches& wanted, const SeenCluster& seen,
                                 const std::set<std::string>& stuck) {
  std::vector<LaunchStep> steps;
  std::set<std::string> names;
  for (const Launch& launch : wanted) {
    names.insert(launch.name);
    const auto it = seen.launches.find(launch.name);
    if (it == seen.launches.end()) {
      steps.push_back({.kind = LaunchStep::Kind::kMake, .launch = launch});
      continue;
    }
    const SeenLaunch& there = it->second;
    if (stuck.contains(launch.name) && !there.is_ending) {
      steps.push_back({.kind = LaunchStep::Kind::kFree, .launch = launch, .seen = there});
      continue;
    }
    const bool may_change = there.kind == LaunchKind::kIndexedJob && !there.is_ending &&
                            there.failure.empty() && !there.is_complete;
    if (may_change && there.hosts != launch.hosts)
      steps.push_back({.kind = LaunchStep::Kind::kResize, .launch = launch, .seen = there});
  }
  for (const auto& [name, there] : seen.launches)
    if (!names.contains(name) && !there.is_ending)
      steps.push_back({.kind = LaunchStep::Kind::kEnd, .seen = there});
  return steps;
}

bool LacksImage(const SeenCluster& seen, const std::string& launch) {
  return HasOne(seen, launch, &SeenPod::has_no_image);
}

bool IsBeingPrepared(const SeenCluster& seen, const std::string& launch) {
  return HasOne(seen, launch, &SeenPod::is_being_prepared);
}

bool KeepsItsDead(const SeenCluster& seen, const std::string& launch) {
  const auto it = seen.launches.find(launch);
  if (it == seen.launches.end() || it->second.is_ending || it->second.is_suspended) return false;
  const auto& pods = PodsIn(seen, launch);
  return !pods.empty() && std::all_of(pods.begin(), pods.end(),
                                      [](const auto& entry) { return entry.second.is_kept; });
}

LaunchTold ToldOf(const Launch& launch, const SeenCluster& seen, const LaunchTimes& times) {
  LaunchTold told{.launch = launch.name};
  const auto it = seen.launches.find(launch.name);
  if (it == seen.launches.end()) {
    told.text = "its pods are being made";
    return told;
  }
  const SeenLaunch& there = it->second;
  const auto part = seen.part_failures.find(launch.name);
  // What is said of one that was deleted counts for none that takes its place.
  if (!there.failure.empty() && !there.is_ending) {
    // The Job of a JobSet, which tells more, is seen a moment before or after it.
    const bool tells_all = there.kind == LaunchKind::kIndexedJob ||
                           part != seen.part_failures.end() || times.since_failed >= kPartPatience;
    if (!tells_all) return told;
    const std::string& why = part == seen.part_failures.end() ? there.failure : part->second;
    told.is_over = true;
    const int code = ExitCodeIn(why);
    // That one is a word between programs. All pods are of one template: no other one has it.
    told.exit_code = code == kExitNoPlugin ? kExitBadConfiguration : code;
    told.failure = absl::StrCat("Kubernetes has given up ", NameOf(there), ": ", why);
    if (const SeenPod* const failed = OneThatFailed(PodsIn(seen, launch.name), code))
      absl::StrAppend(&told.failure, "; ", EndOf(*failed));
    return told;
  }
  if (there.is_complete && !there.is_ending) {
    told.is_over = true;
    told.failure = absl::StrCat("the pods of ", NameOf(there), " have ended as if all was done");
    return told;
  }
  const CountedPods pods = Count(PodsIn(seen, launch.name));
  if (times.without_image >= kImagePatience) {
    told.failure = absl::StrCat("the image cannot be had: ", pods.waits_for);
    return told;
  }
  if (pods.run == launch.hosts) return told;
  told.text = absl::StrCat(pods.run, " of ", Plural(launch.hosts, "pod"), " of ", NameOf(there),
                           pods.run == 1 ? " runs" : " run");
  told.why = WhyNotAll(launch, there, seen, pods, times);
  return told;
}

}  // namespace muster::coordinator
