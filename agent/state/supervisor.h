// Decides which processes of a host run: starts what is wanted, starts again what failed (with
// back-off), gives up on what fails over and over, stops what is wanted no more. A pure state
// machine: Step(event, now) → actions. It holds the processes of each start of each job apart and
// passes events on to them. Not thread-safe. Lives as long as its agent.
//
// The member processes of jobs are wanted by the coordinator (Wanted); the coordinator itself by
// the agent alone.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/state/actions.h"
#include "agent/state/processes_of_job.h"

namespace muster::agent {

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options = {})
      : options_(std::move(options)), told_(Devices()) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  SupervisorActions Step(const SupervisorEvent& event, Time now);

  // When the next Tick is due at the latest; nothing: not before another event.
  std::optional<Time> NextTick() const;
  bool Runs(const ProcessKey& key) const;
  bool IsSigning(const ProcessKey& key) const;
  std::vector<ProcessKey> Running() const;
  // Of this host, and who has them.
  std::vector<HostDevice> Devices() const;
  // Whether the job is wanted here, or a process of it has not ended yet.
  bool Has(const std::string& job) const { return jobs_.contains(job); }

 private:
  using Actions = SupervisorActions;

  void On(const WantCoordinator&, Time now, Actions& out);
  void On(const WantMembers& event, Time now, Actions& out);
  void On(const SpawnFailed& event, Time now, Actions& out);
  void On(const Signed& event, Time now, Actions& out);
  void On(const SignFailed& event, Time now, Actions& out);
  void On(const Exited& event, Time now, Actions& out);
  void On(const Progressed& event, Time now, Actions& out);
  void On(const SessionUp&, Time now, Actions& out);
  void On(const KeepDown& event, Time now, Actions& out);
  void On(const Release& event, Time now, Actions& out);
  void On(const StopAll&, Time now, Actions& out);
  void On(const Tick&, Time now, Actions& out);

  // The starts of one job. The last one is wanted; of the earlier ones, processes still run.
  using Starts = std::list<ProcessesOfJob>;
  struct Members {  // of all jobs
    size_t places = 0;
    size_t letting_go = 0;
  };

  ProcessesOfJob* Find(const ProcessKey& key);  // the start whose process runs, or the last
  ProcessesOfJob& StartOf(const JobProcesses& wanted, Time now, Actions& out);
  void StartWhatIsDue(Time now, Actions& out);
  Members CountMembers() const;
  bool IsHeldBack(const ProcessesOfJob& start, const ProcessKey& key, const Members& members) const;
  std::map<std::string, PlacementNumber> Held() const;  // devices, by id
  // Of the place of a process that is to start: the first that is held; empty: all are free.
  std::string HeldDeviceOf(const ProcessesOfJob& start, const std::string& name) const;
  void SayWhatItWaitsFor(const ProcessesOfJob& start, const ProcessKey& key, Actions& out);

  const SupervisorOptions options_;
  std::map<std::string, Starts> jobs_;  // the coordinator is the one without an id
  std::vector<HostDevice> told_;        // where they are told
  std::set<ProcessKey> waiting_;        // for devices, of which that was said
  bool stopping_ = false;
};

}  // namespace muster::agent
