// What is to be done for launches in a Kubernetes cluster, and what there is to tell of them: pure
// functions of what is wanted and what is seen.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/kubernetes/objects.h"
#include "lib/base/time.h"

namespace muster::coordinator {

struct SeenCluster {
  std::map<std::string, SeenLaunch> launches;                  // by name
  std::map<std::string, std::string> part_failures;            // of the Job of a JobSet, by launch
  std::map<std::string, std::map<std::string, SeenPod>> pods;  // by launch and name
};

struct LaunchStep {
  // kFree: it keeps its dead; where that is because its namespace is being deleted, it is ended.
  enum class Kind { kMake, kResize, kFree, kEnd };
  Kind kind = Kind::kMake;
  Launch launch{};    // of all but kEnd
  SeenLaunch seen{};  // of all but kMake
};
// `stuck` are those of which KeepsItsDead has been true for a while.
std::vector<LaunchStep> StepsFor(const Launches& wanted, const SeenCluster& seen,
                                 const std::set<std::string>& stuck = {});

// For so long …
struct LaunchTimes {
  Duration without_image{};   // … a pod of it has lacked its image
  Duration being_prepared{};  // … a pod of it has been prepared on its node
  Duration since_made{};      // … the object has been there
  Duration since_failed{};    // … it has been given up
};
// Of a launch that is wanted.
LaunchTold ToldOf(const Launch& launch, const SeenCluster& seen, const LaunchTimes& times);

bool LacksImage(const SeenCluster& seen, const std::string& launch);
bool IsBeingPrepared(const SeenCluster& seen, const std::string& launch);
// All its pods have ended as they were told, and none has taken their place. So it is for a moment
// when they are drained, for up to ten minutes when they were so often, and for ever while their
// namespace is being deleted: that waits for the pods, which Kubernetes keeps until each has a
// successor, and there are none in such a namespace.
bool KeepsItsDead(const SeenCluster& seen, const std::string& launch);
inline constexpr char kKeepsItsDead[] =  // for people
    "its pods have ended, as they were told, and Kubernetes has made none in their place yet: it "
    "waits the longer the more often that happens, or a quota of the namespace stands in the way, "
    "or the namespace is being deleted";

}  // namespace muster::coordinator
