// What is to be done for launches in a Kubernetes cluster, and what there is to tell of them: pure
// functions of what is wanted and what is seen.
#pragma once

#include <map>
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
std::vector<LaunchStep> StepsFor(const Launches& wanted, const SeenCluster& seen);

// For so long …
struct LaunchTimes {
  Duration without_image{};  // … a pod of it has lacked its image
  Duration since_made{};     // … the object has been there
  Duration since_failed{};   // … it has been given up
};
// Of a launch that is wanted.
LaunchTold ToldOf(const Launch& launch, const SeenCluster& seen, const LaunchTimes& times);

bool LacksImage(const SeenCluster& seen, const std::string& launch);

}  // namespace muster::coordinator
