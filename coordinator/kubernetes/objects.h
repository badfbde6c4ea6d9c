// What is made in a Kubernetes cluster for a launch, and what is read there of it: JSON on one
// side, plain values on the other. Pure. Sources: Kubernetes' "Jobs" (Indexed completion, pod
// failure policy); JobSet's API reference (v1alpha2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/state/launch.h"

namespace muster::coordinator {

enum class LaunchKind { kJobSet, kIndexedJob };

// What all launches of this cluster have in common.
struct LaunchPlace {
  std::string name_space;  // of Kubernetes
  std::string cluster;     // of Muster
  std::string pod;         // the template of pods, JSON: an object with metadata and spec
  bool has_job_sets = false;
};

// `text`: YAML or JSON of a PodTemplateSpec. As JSON, or what is wrong with it (kInvalidArgument):
// it has to have a container called muster.
absl::StatusOr<std::string> ParsePodTemplate(const std::string& text, const std::string& source);

// An elastic job is one whose number of pods may change, which that of a JobSet may not.
LaunchKind KindOf(const Launch& launch, const LaunchPlace& place);

// ---- what is asked

std::string CollectionOf(LaunchKind kind, const std::string& name_space);  // its path
std::string PathOf(LaunchKind kind, const std::string& name_space, const std::string& name);
std::string PodsOf(const std::string& name_space);
// The body of a deletion of that very object, and of what it has made.
struct SeenLaunch;
std::string DeletionOf(const SeenLaunch& seen);
// Of a SelfSubjectAccessReview.
bool IsAllowedIn(absl::string_view json);
// "labelSelector=…": all that this cluster has made.
std::string SelectorOf(const std::string& cluster);

// The object, as JSON.
std::string ObjectOf(const Launch& launch, const LaunchPlace& place);
// A merge patch for an Indexed Job that is to have so many pods.
std::string SizePatch(int32_t hosts);

// A label's value of a cluster's id, which may be longer and have other characters.
std::string LabelOf(const std::string& cluster);

// ---- what is seen

struct SeenLaunch {
  std::string name;
  std::string uid;
  LaunchKind kind = LaunchKind::kJobSet;
  int32_t hosts = 0;
  bool is_ending = false;     // it is being deleted
  bool is_suspended = false;  // by Kueue, say
  bool is_complete = false;   // its pods have ended with 0
  std::string failure{};      // why it was given up; empty: it was not
  bool operator==(const SeenLaunch&) const = default;
};

// Why the Job of a JobSet has failed, which tells more than the JobSet does.
struct PartFailure {
  std::string launch;
  std::string why;
};
std::optional<PartFailure> PartFailureIn(absl::string_view json);

struct SeenPod {
  std::string name;
  std::string launch;
  bool is_ending = false;
  bool is_kept = false;  // it was told to end, and has, and Kubernetes has not let go of it
  bool runs = false;
  std::string waits_for{};         // why it does not run, for people; empty: nothing is known
  bool has_no_image = false;       // for that reason
  bool is_being_prepared = false;  // on its node: image, volumes and secrets are brought
  bool has_failed = false;
  // The rest is of one that has.
  int exit_code = 0;         // 0: it never ran
  std::string cause{};       // where the exit code does not say it: OOMKilled, Evicted: …
  std::string ended_at{};    // RFC 3339, by the clock of its node
  std::string last_words{};  // for people; empty: none are known
  bool operator==(const SeenPod&) const = default;
};

// Of an object of that kind, or of a pod, as JSON. Nothing: it is none of ours, or no such object.
std::optional<SeenLaunch> LaunchIn(LaunchKind kind, absl::string_view json);
std::optional<SeenPod> PodIn(absl::string_view json);

// One piece of a list: the objects as JSON.
struct ListPiece {
  std::vector<std::string> objects;
  std::string version;     // of the whole list
  std::string next_piece;  // ask for it with that; empty: this was the last
};
absl::StatusOr<ListPiece> ListIn(absl::string_view json);

// A line of a watch.
struct WatchLine {
  enum class Kind { kPut, kGone, kBookmark, kError };
  Kind kind = Kind::kError;
  std::string object{};   // JSON
  std::string version{};  // the watch goes on after it
  int code = 0;           // of an error, as of HTTP
  std::string message{};
};
absl::StatusOr<WatchLine> LineIn(absl::string_view line);

// What the API says of a refusal: its message, or the body itself where it is none of its own.
std::string MessageIn(absl::string_view body);
// That it refuses to make what bears the name of something that is there.
bool IsThereAlready(absl::string_view body);
// That a policy or webhook of somebody's has refused it, and not the API itself.
bool IsRefusedByPolicy(absl::string_view body);
// That it refuses to make anything in a namespace that is being deleted.
bool IsNamespaceEnding(absl::string_view body);

// The same for a JobSet, which does not pass on which exit code it was: "…exit code 64…" → 64. 1:
// it says none.
int ExitCodeIn(const std::string& failure);

}  // namespace muster::coordinator
