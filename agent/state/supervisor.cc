#include "agent/state/supervisor.h"

#include <set>
#include <utility>

namespace muster::agent {

SupervisorActions Supervisor::Step(const SupervisorEvent& event, Time now) {
  Actions out;
  std::visit([&](const auto& e) { On(e, now, out); }, event);
  for (auto& [job, processes] : jobs_) processes.StartWhatIsDue(now, out);
  std::erase_if(jobs_, [](const auto& entry) { return entry.second.over(); });
  return out;
}

std::optional<Time> Supervisor::NextTick() const {
  std::optional<Time> next;
  for (const auto& [job, processes] : jobs_) {
    const std::optional<Time> due = processes.NextTick();
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

bool Supervisor::Runs(const ProcessKey& key) const {
  const auto it = jobs_.find(key.job);
  return it != jobs_.end() && it->second.Runs(key.name);
}

std::vector<ProcessKey> Supervisor::Running() const {
  std::vector<ProcessKey> keys;
  for (const auto& [job, processes] : jobs_) {
    const std::vector<ProcessKey> of_job = processes.Running();
    keys.insert(keys.end(), of_job.begin(), of_job.end());
  }
  return keys;
}

ProcessesOfJob* Supervisor::Find(const std::string& job) {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : &it->second;
}

void Supervisor::On(const WantCoordinator&, Time now, Actions& out) {
  if (stopping_) return;
  auto& processes =
      jobs_.try_emplace(kCoordinatorKey.job, kCoordinatorKey.job, options_).first->second;
  processes.Want({{kCoordinatorKey.name, Role::kWorker}}, now, out);
}

void Supervisor::On(const WantMembers& event, Time now, Actions& out) {
  if (stopping_) return;
  std::set<std::string> listed = {kCoordinatorKey.job};
  for (const JobProcesses& wanted : event.wanted.jobs) {
    if (wanted.job.empty()) continue;  // only the agent itself wants a coordinator
    listed.insert(wanted.job);
    jobs_.try_emplace(wanted.job, wanted.job, options_)
        .first->second.Want(wanted.processes, now, out);
  }
  for (auto& [job, processes] : jobs_)
    if (!listed.contains(job)) processes.Want({}, now, out);
}

void Supervisor::On(const SpawnFailed& event, Time now, Actions& out) {
  On(Exited{event.key, Exit{.code = kExitFailed, .not_started = event.reason}}, now, out);
}

void Supervisor::On(const Exited& event, Time now, Actions& out) {
  if (ProcessesOfJob* job = Find(event.key.job)) job->OnExit(event.key.name, event.exit, now, out);
}

// The coordinator serves all jobs, so that a step of any of them is its progress, too.
void Supervisor::On(const Progressed& event, Time now, Actions&) {
  if (ProcessesOfJob* job = Find(event.key.job)) job->OnProgress(event.key.name, now);
  if (ProcessesOfJob* coordinator = Find(kCoordinatorKey.job)) coordinator->StartAfresh();
}

void Supervisor::On(const SessionUp&, Time, Actions& out) {
  for (auto& [job, processes] : jobs_) processes.OnSessionUp(out);
}

void Supervisor::On(const KeepDown& event, Time, Actions&) {
  if (ProcessesOfJob* job = Find(event.key.job)) job->KeepDown(event.key.name);
}

void Supervisor::On(const Release& event, Time now, Actions&) {
  if (ProcessesOfJob* job = Find(event.key.job)) job->Release(event.key.name, now);
}

void Supervisor::On(const StopAll&, Time now, Actions& out) {
  stopping_ = true;
  for (auto& [job, processes] : jobs_) processes.Stop(now, out);
}

void Supervisor::On(const Tick&, Time now, Actions& out) {
  for (auto& [job, processes] : jobs_) processes.OnTick(now, out);
}

}  // namespace muster::agent
