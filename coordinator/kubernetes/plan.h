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
  enum class Kind { kMake, kResize, kEnd };
  Kind kind = Kind::kMake;
  Launch launch{};    // of kMake and kResize
  SeenLaunch seen{};  // of kResize and kEnd
};
// `stuck` are those of which KeepsItsDead has been true for so long that they are to be made anew.
std::vector<LaunchStep> StepsFor(const Launches& wanted, const SeenCluster& seen,
                                 const std::set<std::string>& stuck = {});

// For so long …
struct LaunchTimes {
  Duration without_image{};  // … a pod of it has lacked its image
  Duration since_made{};     // … the object has been there
  Duration since_failed{};   // … it has been given up
};
// Of a launch that is wanted.
LaunchTold ToldOf(const Launch& launch, const SeenCluster& seen, const LaunchTimes& times);

bool LacksImage(const SeenCluster& seen, const std::string& launch);
// All its pods have ended as they were told, and none may take their place. So it is for a moment
// when they are drained, and for ever while their namespace is being deleted: that waits for the
// pods, which Kubernetes keeps until each has a successor, and there are none in such a namespace.
bool KeepsItsDead(const SeenCluster& seen, const std::string& launch);

}  // namespace muster::coordinator
