#include "agent/state/processes_of_job.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/state/log_words.h"

namespace muster::agent {
namespace {

constexpr size_t kCountedExits = 16;  // of a process
constexpr size_t kEndsBefore = 1024;  // of earlier starts of the job

bool CannotWorkForNow(const ProcessKey& key, const Exit& exit) {
  return key == kCoordinatorKey && MeaningOf(exit) == ExitMeaning::kLeft;
}

// The last word of a program that failed by itself. One that was killed or told to go had none, and
// what stands last in its log is about something else.
std::string WhyItFailed(const Exit& exit) {
  const bool was_ended =
      exit.signal == SIGKILL || (exit.signal == 0 && exit.code == kExitTerminated);
  if (was_ended || !exit.not_started.empty() || MeaningOf(exit) != ExitMeaning::kFailure) return "";
  return WhyOf(exit.last_lines);
}

std::string WhatHappened(const ProcessKey& key, const Exit& exit) {
  if (!exit.not_started.empty())
    return absl::StrCat(key.name, " could not be started: ", exit.not_started);
  if (exit.out_of_memory) return absl::StrCat(key.name, " ran out of memory");
  if (CannotWorkForNow(key, exit))
    return absl::StrCat(key.name, " cannot work for now (", LastError(exit.last_lines), ")");
  return absl::StrCat(key.name, exit.signal == 0 ? " ended with " : " was ", CauseOf(exit));
}

std::string HowItStartsAgain(const Exit& exit, Duration delay) {
  const std::string why = WhyItFailed(exit);
  return absl::StrCat(why.empty() ? "" : ": ", why,
                      absl::StrFormat("; it starts again in %.1f s", Seconds(delay)));
}

// `only_failure`: it is the first in a row, and none is allowed.
std::string WhatFollows(const Exit& exit, AfterExit after, Duration delay, bool only_failure) {
  switch (after) {
    case AfterExit::kStartsAgain: return HowItStartsAgain(exit, delay);
    case AfterExit::kKeptDown: return "; it is kept down for now";
    case AfterExit::kFinished: return "";
    case AfterExit::kGivenUp:
      return MeaningOf(exit) == ExitMeaning::kHopeless ? "; it is not started again"
             : exit.host_is_short
                 ? "; this host has had no room for it for too long, and it is not started again"
             : only_failure ? "; its job allows no restarts, and it is not started again"
                            : "; it fails over and over and is not started again";
  }
  return "";
}

}  // namespace

void ProcessesOfJob::Want(const std::vector<ProcessWanted>& wanted, Time now, Actions& out) {
  if (stopping_) return;
  std::set<std::string> listed;
  for (const ProcessWanted& process : wanted) {
    listed.insert(process.name);
    const auto [it, is_new] = processes_.try_emplace(process.name);
    it->second.role = process.role;
    it->second.wanted = true;
    it->second.next_placement.reset();
    if (is_new) {
      it->second.placement = process.placement;
      it->second.devices = process.devices;
    }
    if (it->second.placement != process.placement) {
      if (Runs(it->second)) {
        it->second.next_placement = process.placement;
        it->second.next_devices = process.devices;
        if (it->second.phase == Phase::kRunning) LetLeave(process.name, it->second, now, out);
      } else {
        it->second.BeginAt(process.placement, process.devices, now);
      }
      continue;
    }
    // It left, perhaps because a person told it to go, and its job goes on.
    const bool starts_again = it->second.phase == Phase::kFinished;
    if (starts_again) it->second.StartAfresh();
    if (is_new || starts_again) {
      it->second.phase = Phase::kWaiting;
      it->second.due = now;
    }
  }
  for (auto it = processes_.begin(); it != processes_.end();) {
    auto& [name, process] = *it;
    if (listed.contains(name)) {
      ++it;
      continue;
    }
    process.wanted = false;
    if (process.phase == Phase::kRunning) LetLeave(name, process, now, out);
    it = Runs(process) ? std::next(it) : processes_.erase(it);
  }
}

void ProcessesOfJob::OnExit(const std::string& name, const Exit& exit, Time now, Actions& out) {
  const auto it = processes_.find(name);
  if (it == processes_.end()) return;
  Process& process = it->second;
  const ProcessKey key = KeyOf(name);
  const AfterExit after = Judge(process, exit, now);
  process.last_exit = exit;
  process.ended_at = reached_;
  if (exit.lanes.incarnation != Incarnation{})
    process.counted_exits.emplace_back(process.placement, exit);
  if (process.counted_exits.size() > kCountedExits) process.counted_exits.pop_front();
  NoteExit note{.key = key, .exit = exit, .after = after};
  if (after == AfterExit::kStartsAgain) note.delay = process.backoff = NextBackoff(process);
  const bool only_failure = options_.crash_limit == 1 && process.failures.size() == 1;
  note.text = WhatHappened(key, exit) + WhatFollows(exit, after, note.delay, only_failure);
  process.phase = PhaseAfter(after);
  process.due = now + note.delay;
  if (!is_coordinator())
    out.push_back(ReportExit{ReportOf(name, process, process.placement, exit)});
  out.push_back(std::move(note));
  if (!process.wanted)
    processes_.erase(it);
  else if (process.next_placement)
    process.BeginAt(*process.next_placement, process.next_devices, now);
}

ProcessesOfJob::Phase ProcessesOfJob::PhaseAfter(AfterExit after) {
  switch (after) {
    case AfterExit::kGivenUp: return Phase::kGivenUp;
    case AfterExit::kFinished: return Phase::kFinished;
    case AfterExit::kStartsAgain:
    case AfterExit::kKeptDown: break;
  }
  return Phase::kWaiting;
}

Duration ProcessesOfJob::NextBackoff(const Process& process) const {
  if (process.backoff == Duration()) return options_.first_backoff;
  return std::min(process.backoff * 2, options_.longest_backoff);
}

AfterExit ProcessesOfJob::Judge(Process& process, const Exit& exit, Time now) const {
  if (stopping_ || !process.wanted) return AfterExit::kFinished;
  if (process.kept_down) return AfterExit::kKeptDown;
  // It was wanted again while we were ending it, so its exit says nothing.
  if (Ends(process)) return AfterExit::kStartsAgain;
  const ExitMeaning meaning = MeaningOf(exit);
  if (meaning == ExitMeaning::kHopeless) return AfterExit::kGivenUp;
  if (is_coordinator() && meaning == ExitMeaning::kLeft) return AfterExit::kStartsAgain;
  // A coordinator is needed as long as the agent lives, however politely it left.
  if (meaning != ExitMeaning::kFailure && !is_coordinator()) return AfterExit::kFinished;
  const bool too_many =
      IsOfTheHost(process, exit) ? CountHostFailure(process, now) : CountFailure(process, now);
  return too_many ? AfterExit::kGivenUp : AfterExit::kStartsAgain;
}

// A program does not kill itself: somebody did, or the kernel for memory, which is its own doing.
// One that never came so far that it worked may be killed for what it does at its start.
bool ProcessesOfJob::IsOfTheHost(const Process& process, const Exit& exit) {
  const bool killed = exit.signal == SIGKILL && !exit.out_of_memory;
  return exit.host_is_short || (killed && process.has_worked);
}

// True when it has lasted too long.
bool ProcessesOfJob::CountHostFailure(Process& process, Time now) const {
  const bool ran_well = now - process.since >= options_.healthy_after;
  if (ran_well) process.backoff = Duration();
  if (!process.host_fails_since || ran_well) process.host_fails_since = now;
  return now - *process.host_fails_since >= options_.host_patience;
}

// True when the crash limit is reached.
bool ProcessesOfJob::CountFailure(Process& process, Time now) const {
  process.host_fails_since.reset();
  std::deque<Time>& failures = process.failures;
  while (is_coordinator() && !failures.empty() &&
         now - failures.front() > options_.coordinator_crash_window)
    failures.pop_front();
  if (failures.empty()) process.backoff = Duration();
  failures.push_back(now);
  return static_cast<int>(failures.size()) >= options_.crash_limit;
}

void ProcessesOfJob::Process::StartAfresh() {
  failures.clear();
  host_fails_since.reset();
  backoff = Duration();
}

void ProcessesOfJob::Process::BeginAt(PlacementNumber place, std::vector<std::string> devices_there,
                                      Time now) {
  Process fresh{.role = role,
                .placement = place,
                .devices = std::move(devices_there),
                .kept_down = kept_down,
                .due = now};
  fresh.counted_exits = std::move(counted_exits);
  *this = std::move(fresh);
}

// Members go on for a while without a coordinator: their steps say nothing about one that has not
// come up.
void ProcessesOfJob::OnProgressOfMembers() {
  for (auto& [name, process] : processes_)
    if (process.phase == Phase::kRunning && process.is_up) process.StartAfresh();
}

// Servers do not report steps, but no worker completes one without them. What fails in the same
// step each time completes those between the last checkpoint and that one again each time, so they
// begin no count anew. Others may have gone on meanwhile: each is held to where the job was when it
// ended itself.
bool ProcessesOfJob::OnProgress(const std::string& name, Step step, Time now) {
  const bool is_new = step > reached_;
  if (is_new) reached_ = step;
  for (auto& [other, process] : processes_) {
    const bool runs = process.phase == Phase::kRunning;
    const bool serves = runs && process.role == Role::kServer;
    const bool has_looked_on = runs && now - process.since >= options_.healthy_after;
    if (other != name && !serves && !has_looked_on) continue;
    process.has_worked = true;
    if (step > process.ended_at) process.StartAfresh();
  }
  return is_new;
}

// Exits are told again even if the process runs again: only we know what the earlier one had run,
// and a coordinator that was away would wait for it until its lease is over.
void ProcessesOfJob::OnSessionUp(Actions& out) {
  for (ProcessExited& exited : EndsToTell()) out.push_back(ReportExit{std::move(exited)});
  for (auto& [name, process] : processes_) {
    if (is_coordinator()) {
      process.is_up = process.has_worked = true;
      // It could not work for now, and has recovered. Where somebody kills it over and over, it
      // comes up each time.
      if (process.failures.empty() && !process.host_fails_since) process.backoff = Duration();
      continue;
    }
    const bool told = process.last_exit && process.last_exit->lanes.incarnation != Incarnation{};
    if (!Runs(process) && process.last_exit && !told)
      out.push_back(ReportExit{ReportOf(name, process, process.placement, *process.last_exit)});
  }
}

std::deque<ProcessExited> ProcessesOfJob::EndsToTell() const {
  std::deque<ProcessExited> ends = ended_before_;
  for (const auto& [name, process] : processes_)
    for (const auto& [placement, exit] : process.counted_exits)
      ends.push_back(ReportOf(name, process, placement, exit));
  while (ends.size() > kEndsBefore) ends.pop_front();
  return ends;
}

bool ProcessesOfJob::HasPlace(const std::string& name) const {
  const auto it = processes_.find(name);
  return it != processes_.end() && HasPlace(it->second);
}

bool ProcessesOfJob::HasPlace(const Process& process) {
  const bool starts_again = process.phase == Phase::kWaiting || process.phase == Phase::kFinished;
  return Runs(process) || process.phase == Phase::kSigning ||
         (starts_again && process.has_run && process.wanted);
}

size_t ProcessesOfJob::Places() const {
  return static_cast<size_t>(std::count_if(processes_.begin(), processes_.end(),
                                           [](const auto& e) { return HasPlace(e.second); }));
}

size_t ProcessesOfJob::LettingGo() const {
  return static_cast<size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& entry) { return Runs(entry.second) && !entry.second.wanted; }));
}

void ProcessesOfJob::KeepDown(const std::string& name) {
  if (const auto it = processes_.find(name); it != processes_.end()) it->second.kept_down = true;
}

void ProcessesOfJob::Release(const std::string& name, Time now) {
  const auto it = processes_.find(name);
  if (it == processes_.end()) return;
  it->second.kept_down = false;
  if (it->second.phase == Phase::kWaiting) it->second.due = now;
}

void ProcessesOfJob::Stop(Time now, Actions& out) {
  const bool at_once = std::exchange(stopping_, true);
  for (auto& [name, process] : processes_) {
    if (!Runs(process)) continue;
    if (at_once)
      out.push_back(SendSignal{KeyOf(name), SIGKILL});
    else if (process.phase != Phase::kStopping)
      StopOne(name, process, now, out);
  }
}

void ProcessesOfJob::OnTick(Time now, Actions& out) {
  for (auto& [name, process] : processes_) {
    if (!Ends(process) || process.due > now) continue;
    if (process.phase == Phase::kLeaving) {
      StopOne(name, process, now, out);
      continue;
    }
    out.push_back(SendSignal{KeyOf(name), SIGKILL});
    process.due = now + options_.stop_grace;
  }
}

void ProcessesOfJob::StartWhatIsDue(Time now, const MayStart& may_start, Actions& out) {
  if (stopping_) return;
  for (auto& [name, process] : processes_) {
    if (process.phase != Phase::kWaiting || process.kept_down || process.due > now) continue;
    if (!may_start(name)) continue;
    if (!options_.signs || is_coordinator()) {
      Start(name, process, now, out);
      continue;
    }
    process.phase = Phase::kSigning;
    process.since = now;
    out.push_back(AskToSign{KeyOf(name), process.placement});
  }
}

void ProcessesOfJob::Start(const std::string& name, Process& process, Time now,
                           Actions& out) const {
  process.phase = Phase::kRunning;
  process.since = now;
  process.has_run = true;
  process.is_up = false;
  out.push_back(Spawn{KeyOf(name), start_, process.role, process.placement, process.devices});
}

ProcessesOfJob::Process* ProcessesOfJob::Signing(const std::string& name,
                                                 PlacementNumber placement) {
  const auto it = processes_.find(name);
  const bool signs = it != processes_.end() && it->second.phase == Phase::kSigning &&
                     it->second.placement == placement;
  return signs ? &it->second : nullptr;
}

bool ProcessesOfJob::IsSigning(const std::string& name) const {
  const auto it = processes_.find(name);
  return it != processes_.end() && it->second.phase == Phase::kSigning;
}

// One that was kept down meanwhile asks again when it is released.
void ProcessesOfJob::OnSigned(const std::string& name, PlacementNumber placement, Time now,
                              Actions& out) {
  Process* const process = Signing(name, placement);
  if (process == nullptr) return;
  if (!stopping_ && !process->kept_down) return Start(name, *process, now, out);
  process->phase = Phase::kWaiting;
  process->due = now;
}

void ProcessesOfJob::OnSignFailed(const std::string& name, PlacementNumber placement,
                                  const std::string& why, Time now, Actions& out) {
  if (Signing(name, placement) == nullptr) return;
  OnExit(name, {.code = kExitFailed, .not_started = why, .host_is_short = true}, now, out);
}

std::optional<Time> ProcessesOfJob::NextTick(const MayStart& may_start) const {
  std::optional<Time> next;
  for (const auto& [name, process] : processes_) {
    const bool starts = process.phase == Phase::kWaiting && process.wanted && !process.kept_down &&
                        !stopping_ && may_start(name);
    if (!starts && !Ends(process)) continue;
    if (!next || process.due < *next) next = process.due;
  }
  return next;
}

const std::vector<std::string>& ProcessesOfJob::DevicesOf(const std::string& name) const {
  static const std::vector<std::string> kNone;
  const auto it = processes_.find(name);
  return it == processes_.end() ? kNone : it->second.devices;
}

void ProcessesOfJob::AddHeld(std::map<std::string, PlacementNumber>& held) const {
  for (const auto& [name, process] : processes_)
    if (Runs(process))
      for (const std::string& id : process.devices) held[id] = process.placement;
}

bool ProcessesOfJob::Runs(const std::string& name) const {
  const auto it = processes_.find(name);
  return it != processes_.end() && Runs(it->second);
}

bool ProcessesOfJob::Runs(const Process& process) {
  return process.phase == Phase::kRunning || Ends(process);
}

std::vector<ProcessKey> ProcessesOfJob::Running() const {
  std::vector<ProcessKey> keys;
  for (const auto& [name, process] : processes_)
    if (Runs(process)) keys.push_back(KeyOf(name));
  return keys;
}

bool ProcessesOfJob::Ends(const Process& process) {
  return process.phase == Phase::kLeaving || process.phase == Phase::kStopping;
}

void ProcessesOfJob::LetLeave(const std::string& name, Process& process, Time now, Actions& out) {
  process.phase = Phase::kLeaving;
  process.due = now + options_.leave_grace;
  out.push_back(
      SendSignal{KeyOf(name), SIGCONT});  // a paused process hears it only when it goes on
}

void ProcessesOfJob::StopOne(const std::string& name, Process& process, Time now, Actions& out) {
  process.phase = Phase::kStopping;
  process.due = now + options_.stop_grace;
  out.push_back(SendSignal{KeyOf(name), SIGTERM});
  // A paused process hears SIGTERM only when it goes on.
  out.push_back(SendSignal{KeyOf(name), SIGCONT});
}

ProcessExited ProcessesOfJob::ReportOf(const std::string& name, const Process& process,
                                       PlacementNumber placement, const Exit& exit) const {
  // A process that is hopeless says so by its exit code.
  const bool is_hopeless = MeaningOf(exit) == ExitMeaning::kHopeless;
  // A coordinator of before that code would wait for a process that is not started again.
  const bool lacks_plugin = exit.signal == 0 && exit.code == kExitNoPlugin;
  const bool gave_up = process.phase == Phase::kGivenUp &&
                       (lacks_plugin || MeaningOf(exit) == ExitMeaning::kFailure);
  // Its job ends with it, so that this is read as the job's reason.
  const std::string why = is_hopeless || gave_up ? WhyOf(exit.last_lines) : "";
  return {.job = job_,
          .start = start_,
          .placement = placement,
          .name = name,
          .exit_code = exit.untold        ? kExitFailed
                       : exit.signal == 0 ? exit.code
                                          : 0,
          .signal = exit.signal,
          .cause = absl::StrCat(CauseOf(exit), why.empty() ? "" : ": ", why),
          .gave_up = gave_up,
          .lanes = exit.lanes,
          .last_lines = exit.last_lines,
          .sample = exit.sample};
}

}  // namespace muster::agent
