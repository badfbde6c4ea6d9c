#include "tests/sim/pods.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

std::string HostOf(const coordinator::SeenLaunch& launch, int32_t index) {
  const bool is_set = launch.kind == coordinator::LaunchKind::kJobSet;
  return absl::StrCat(launch.name, is_set ? "-hosts-0-" : "-", index);
}

// How many pods it is to have now.
int32_t HostsWanted(const coordinator::SeenLaunch& seen) {
  const bool is_wanted = !seen.is_ending && !seen.is_suspended && seen.failure.empty();
  return is_wanted ? seen.hosts : 0;
}

}  // namespace

Pods::Object* Pods::Find(const std::string& uid) {
  const auto it = std::find_if(objects_.begin(), objects_.end(),
                               [&](const auto& entry) { return entry.second.seen.uid == uid; });
  return it == objects_.end() ? nullptr : &it->second;
}

Pods::Object* Pods::Any() {
  if (objects_.empty()) return nullptr;
  auto it = objects_.begin();
  std::advance(it, around_.schedule.Random(0, static_cast<int64_t>(objects_.size()) - 1));
  return it->second.seen.is_ending ? nullptr : &it->second;
}

// What is there under that name stays as it is, also while it is being deleted.
bool Pods::Make(const coordinator::Launch& launch) {
  if (around_.schedule.OneIn(12)) return false;
  if (objects_.contains(launch.name)) return true;
  Object object;
  object.seen.name = launch.name;
  object.seen.uid = absl::StrCat(next_uid_++);
  object.seen.kind =
      launch.is_elastic ? coordinator::LaunchKind::kIndexedJob : coordinator::LaunchKind::kJobSet;
  object.seen.hosts = launch.hosts;
  object.devices = launch.devices_each;
  around_.coverage.Add(made_.insert(launch.name).second ? Corner::kLaunchesMade
                                                        : Corner::kLaunchesMadeAgain);
  around_.trace.Note(absl::StrCat(launch.name, " is made, of ", launch.hosts, " pods"));
  Keep(objects_.emplace(launch.name, std::move(object)).first->second);
  Changed();
  return true;
}

bool Pods::Resize(const std::string& uid, int32_t hosts) {
  Object* object = Find(uid);
  if (around_.schedule.OneIn(12) || object == nullptr) return false;
  around_.coverage.Add(Corner::kLaunchesResized);
  around_.trace.Note(
      absl::StrCat(object->seen.name, " gets ", hosts, " pods, not ", object->seen.hosts));
  object->seen.hosts = hosts;
  Keep(*object);
  Changed();
  return true;
}

void Pods::Delete(const std::string& uid) {
  Object* object = Find(uid);
  if (object == nullptr || object->seen.is_ending) return;
  around_.trace.Note(absl::StrCat(object->seen.name, " is deleted"));
  object->seen.is_ending = true;
  Keep(*object);
  Changed();
}

void Pods::DeleteAny() {
  if (const Object* object = Any()) Delete(object->seen.uid);
}

void Pods::GiveUpAny() {
  Object* object = Any();
  if (object == nullptr || !object->seen.failure.empty()) return;
  around_.trace.Note(absl::StrCat(object->seen.name, " is given up"));
  around_.coverage.Add(Corner::kLaunchesGivenUp);
  object->seen.failure = "its pods failed too often";
  Keep(*object);
  Changed();
}

void Pods::SuspendAny(int64_t ms) {
  Object* object = Any();
  if (object == nullptr || object->seen.is_suspended) return;
  around_.trace.Note(absl::StrCat(object->seen.name, " is suspended for ", ms, " ms"));
  around_.coverage.Add(Corner::kLaunchesSuspended);
  object->seen.is_suspended = true;
  Keep(*object);
  Changed();
  around_.schedule.At(ms, [this, uid = object->seen.uid] {
    Object* then = Find(uid);
    if (then == nullptr) return;
    then->seen.is_suspended = false;
    Keep(*then);
    Changed();
  });
}

// The controller: starts the pods that the object lacks, and ends those that are too many.
void Pods::Keep(Object& object) {
  const coordinator::SeenLaunch& seen = object.seen;
  const int32_t hosts = HostsWanted(seen);
  for (int32_t index = 0; index < hosts; ++index)
    if (!object.pods.contains(index))
      Begin(object, index, around_.schedule.Random(20, around_.schedule.OneIn(6) ? 4000 : 400));
  std::vector<int32_t> too_many;
  for (const auto& [index, pod] : object.pods)
    if (index >= hosts && pod != Pod::kEnds) too_many.push_back(index);
  for (const int32_t index : too_many) End(object, index);
  if (seen.is_ending && object.pods.empty()) objects_.erase(std::string(seen.name));
}

void Pods::Begin(Object& object, int32_t index, int64_t delay) {
  object.pods[index] = Pod::kComes;
  around_.schedule.At(delay, [this, uid = object.seen.uid, index] {
    Object* then = Find(uid);
    if (then == nullptr || !then->pods.contains(index)) return;
    Pod& pod = then->pods[index];
    if (pod != Pod::kComes) return;
    pod = Pod::kRuns;
    events_.start(HostOf(then->seen, index), then->devices);
    Changed();
  });
}

void Pods::End(Object& object, int32_t index) {
  Pod& pod = object.pods[index];
  if (pod == Pod::kComes) {
    object.pods.erase(index);
    return;
  }
  pod = Pod::kEnds;
  events_.end(HostOf(object.seen, index), around_.schedule.Random(300, 5000));
}

void Pods::Died(const std::string& host, int64_t down_ms) {
  for (auto& [name, object] : objects_)
    for (const auto& [number, pod] : object.pods) {
      if (pod == Pod::kComes || HostOf(object.seen, number) != host) continue;
      const int32_t index = number;  // which goes with its entry
      object.pods.erase(index);
      if (index < HostsWanted(object.seen)) {
        around_.coverage.Add(Corner::kPodsReplaced);
        Begin(object, index, down_ms);
      } else {
        Keep(object);
      }
      return Changed();
    }
}

coordinator::SeenCluster Pods::Seen() const {
  coordinator::SeenCluster all;
  for (const auto& [name, object] : objects_) {
    all.launches[name] = object.seen;
    for (const auto& [index, state] : object.pods) {
      coordinator::SeenPod pod;
      pod.name = absl::StrCat(HostOf(object.seen, index), "-x");
      pod.launch = name;
      pod.runs = state == Pod::kRuns;
      pod.is_ending = state == Pod::kEnds;
      all.pods[name][pod.name] = pod;
    }
  }
  return all;
}

}  // namespace muster::sim
