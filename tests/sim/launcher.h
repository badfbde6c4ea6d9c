// The launcher of one life of the coordinator, as coordinator/kubernetes/launcher.h has it: it sees
// the cluster a moment late, and what it does takes its time. The steps and the words are those of
// the real one (coordinator/kubernetes/plan.h). Lives as long as the coordinator's process.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "coordinator/kubernetes/plan.h"
#include "tests/sim/around.h"
#include "tests/sim/pods.h"

namespace muster::sim {

class CoordinatorProcess;

class SimLauncher {
 public:
  SimLauncher(Around around, Pods& pods, CoordinatorProcess& coordinator);
  ~SimLauncher();
  SimLauncher(const SimLauncher&) = delete;
  SimLauncher& operator=(const SimLauncher&) = delete;

 private:
  void Watched();
  void Look();
  void Take();
  void Take(const coordinator::LaunchStep& step);
  void LookLater();
  void Tell(const coordinator::Launches& wanted);

  Around around_;
  Pods& pods_;
  CoordinatorProcess& coordinator_;
  OrderedQueue watch_;
  std::optional<coordinator::SeenCluster> seen_;  // nothing: not listed yet
  coordinator::Launches wanted_;                  // at the last look
  std::deque<coordinator::LaunchStep> steps_;     // of the last look, still to be taken
  std::map<std::string, coordinator::LaunchTold> told_;
  std::map<std::string, int64_t> failed_at_;
};

}  // namespace muster::sim
