#include "agent/state/supervisor.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::agent {

SupervisorActions Supervisor::Step(const SupervisorEvent& event, Time now) {
  Actions out;
  std::visit([&](const auto& e) { On(e, now, out); }, event);
  StartWhatIsDue(now, out);
  for (auto& [job, starts] : jobs_)
    starts.remove_if([](const ProcessesOfJob& start) { return start.over(); });
  std::erase_if(jobs_, [](const auto& entry) { return entry.second.empty(); });
  std::erase_if(waiting_, [this](const ProcessKey& key) { return !jobs_.contains(key.job); });
  if (options_.devices.empty()) return out;
  std::vector<HostDevice> devices = Devices();
  const bool is_new = devices != told_ || std::holds_alternative<SessionUp>(event);
  if (is_new) out.push_back(TellDevices{told_ = std::move(devices)});
  return out;
}

std::vector<HostDevice> Supervisor::Devices() const {
  const std::map<std::string, PlacementNumber> held = Held();
  std::vector<HostDevice> devices;
  for (const std::string& id : options_.devices) {
    const auto holder = held.find(id);
    devices.push_back({id, holder == held.end() ? PlacementNumber() : holder->second});
  }
  return devices;
}

std::string Supervisor::HeldDeviceOf(const ProcessesOfJob& start, const std::string& name) const {
  const std::vector<std::string>& devices = start.DevicesOf(name);
  if (devices.empty()) return "";
  const std::map<std::string, PlacementNumber> held = Held();
  const auto first = std::find_if(devices.begin(), devices.end(),
                                  [&](const std::string& id) { return held.contains(id); });
  return first == devices.end() ? "" : *first;
}

// Once for each wait.
void Supervisor::SayWhatItWaitsFor(const ProcessesOfJob& start, const ProcessKey& key,
                                   Actions& out) {
  const std::string device = HeldDeviceOf(start, key.name);
  if (device.empty() || !waiting_.insert(key).second) return;
  out.push_back(NoteWait{key, absl::StrCat(key.name, " waits for device ", device,
                                           ", which a process that ends still has")});
}

std::map<std::string, PlacementNumber> Supervisor::Held() const {
  std::map<std::string, PlacementNumber> held;
  for (const auto& [job, starts] : jobs_)
    for (const ProcessesOfJob& start : starts) start.AddHeld(held);
  return held;
}

void Supervisor::StartWhatIsDue(Time now, Actions& out) {
  Members members = CountMembers();
  for (auto& [job, starts] : jobs_) {
    for (ProcessesOfJob& start : starts) {
      const auto may_start = [&, &id = job](const std::string& name) {
        if (IsHeldBack(start, {id, name}, members)) {
          SayWhatItWaitsFor(start, {id, name}, out);
          return false;
        }
        waiting_.erase({id, name});
        if (id != kCoordinatorKey.job && !start.HasPlace(name)) ++members.places;
        return true;
      };
      start.StartWhatIsDue(now, may_start, out);
    }
  }
}

Supervisor::Members Supervisor::CountMembers() const {
  Members members;
  for (const auto& [job, starts] : jobs_) {
    if (job == kCoordinatorKey.job) continue;
    for (const ProcessesOfJob& start : starts) {
      members.places += start.Places();
      members.letting_go += start.LettingGo();
    }
  }
  return members;
}

// Slots and devices are freed when the leaving processes exit (SIGKILL at the latest); that exit
// starts the waiting ones. Whoever has run already has its place: what another job lets go of does
// not hold it up.
bool Supervisor::IsHeldBack(const ProcessesOfJob& start, const ProcessKey& key,
                            const Members& members) const {
  if (key == kCoordinatorKey) return false;
  if (Runs(key)) return true;  // for an earlier start of its job
  if (!HeldDeviceOf(start, key.name).empty()) return true;
  return options_.slots > 0 && members.letting_go > 0 && !start.HasPlace(key.name) &&
         members.places >= static_cast<size_t>(options_.slots);
}

std::optional<Time> Supervisor::NextTick() const {
  const Members members = CountMembers();
  std::optional<Time> next;
  for (const auto& [job, starts] : jobs_)
    for (const ProcessesOfJob& start : starts) {
      const std::optional<Time> due = start.NextTick([&, &id = job](const std::string& name) {
        return !IsHeldBack(start, {id, name}, members);
      });
      if (due && (!next || *due < *next)) next = due;
    }
  return next;
}

bool Supervisor::Runs(const ProcessKey& key) const {
  const auto it = jobs_.find(key.job);
  return it != jobs_.end() &&
         std::any_of(it->second.begin(), it->second.end(),
                     [&](const ProcessesOfJob& start) { return start.Runs(key.name); });
}

// What starts is of the last start.
bool Supervisor::IsSigning(const ProcessKey& key) const {
  const auto it = jobs_.find(key.job);
  return it != jobs_.end() && it->second.back().IsSigning(key.name);
}

std::vector<ProcessKey> Supervisor::Running() const {
  std::vector<ProcessKey> keys;
  for (const auto& [job, starts] : jobs_)
    for (const ProcessesOfJob& start : starts) {
      const std::vector<ProcessKey> of_start = start.Running();
      keys.insert(keys.end(), of_start.begin(), of_start.end());
    }
  std::sort(keys.begin(), keys.end());
  return keys;
}

ProcessesOfJob* Supervisor::Find(const ProcessKey& key) {
  const auto it = jobs_.find(key.job);
  if (it == jobs_.end()) return nullptr;
  for (ProcessesOfJob& start : it->second)
    if (start.Runs(key.name)) return &start;
  return &it->second.back();
}

void Supervisor::On(const WantCoordinator&, Time now, Actions& out) {
  if (stopping_) return;
  StartOf({.job = kCoordinatorKey.job, .start = {}, .processes = {}}, now, out)
      .Want({{kCoordinatorKey.name, Role::kWorker}}, now, out);
}

// Where the job is started anew, the processes of its last start are let go and forgotten, except
// for what its workers had run.
ProcessesOfJob& Supervisor::StartOf(const JobProcesses& wanted, Time now, Actions& out) {
  Starts& starts = jobs_[wanted.job];
  if (!starts.empty() && starts.back().start() == wanted.start) return starts.back();
  std::deque<ProcessExited> ended;
  if (!starts.empty()) {
    ended = starts.back().EndsToTell();
    starts.back().Want({}, now, out);
  }
  SupervisorOptions options = options_;
  if (wanted.job != kCoordinatorKey.job) options.crash_limit = wanted.restarts + 1;
  return starts.emplace_back(wanted.job, wanted.start, options, std::move(ended));
}

void Supervisor::On(const WantMembers& event, Time now, Actions& out) {
  if (stopping_) return;
  std::set<std::string> listed = {kCoordinatorKey.job};
  for (const JobProcesses& wanted : event.wanted.jobs) {
    if (wanted.job.empty()) continue;  // only the agent itself wants a coordinator
    listed.insert(wanted.job);
    StartOf(wanted, now, out).Want(wanted.processes, now, out);
  }
  for (auto& [job, starts] : jobs_)
    if (!listed.contains(job)) starts.back().Want({}, now, out);
}

void Supervisor::On(const SpawnFailed& event, Time now, Actions& out) {
  On(Exited{event.key, Exit{.code = kExitFailed,
                            .not_started = event.reason,
                            .host_is_short = event.host_is_short}},
     now, out);
}

void Supervisor::On(const Signed& event, Time now, Actions& out) {
  if (ProcessesOfJob* job = Find(event.key))
    job->OnSigned(event.key.name, event.placement, now, out);
}

void Supervisor::On(const SignFailed& event, Time now, Actions& out) {
  if (ProcessesOfJob* job = Find(event.key))
    job->OnSignFailed(event.key.name, event.placement, event.reason, now, out);
}

void Supervisor::On(const Exited& event, Time now, Actions& out) {
  if (ProcessesOfJob* job = Find(event.key)) job->OnExit(event.key.name, event.exit, now, out);
}

// The coordinator serves all jobs, so that a new step of any of them is its progress, too.
void Supervisor::On(const Progressed& event, Time now, Actions&) {
  ProcessesOfJob* const job = Find(event.key);
  if (job == nullptr || !job->OnProgress(event.key.name, event.step, now)) return;
  if (ProcessesOfJob* coordinator = Find(kCoordinatorKey)) coordinator->OnProgressOfMembers();
}

void Supervisor::On(const SessionUp&, Time, Actions& out) {
  for (auto& [job, starts] : jobs_)
    for (ProcessesOfJob& start : starts) start.OnSessionUp(out);
}

void Supervisor::On(const KeepDown& event, Time, Actions&) {
  const auto it = jobs_.find(event.key.job);
  if (it == jobs_.end()) return;
  for (ProcessesOfJob& start : it->second) start.KeepDown(event.key.name);
}

void Supervisor::On(const Release& event, Time now, Actions&) {
  const auto it = jobs_.find(event.key.job);
  if (it == jobs_.end()) return;
  for (ProcessesOfJob& start : it->second) start.Release(event.key.name, now);
}

void Supervisor::On(const StopAll&, Time now, Actions& out) {
  stopping_ = true;
  for (auto& [job, starts] : jobs_)
    for (ProcessesOfJob& start : starts) start.Stop(now, out);
}

void Supervisor::On(const Tick&, Time now, Actions& out) {
  for (auto& [job, starts] : jobs_)
    for (ProcessesOfJob& start : starts) start.OnTick(now, out);
}

}  // namespace muster::agent
