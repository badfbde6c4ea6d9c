#include "agent/state/supervisor.h"

#include <algorithm>
#include <csignal>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace muster::agent {
namespace {

constexpr size_t kCountedExits = 16;  // of a process

// The last line of a log; of one of ours, what it says.
std::string LastWords(absl::string_view lines) {
  while (absl::ConsumeSuffix(&lines, "\n")) {
  }
  const size_t end = lines.rfind('\n');
  absl::string_view line = end == absl::string_view::npos ? lines : lines.substr(end + 1);
  constexpr absl::string_view kError = " error muster-coordinator ";
  if (const size_t error = line.find(kError); error != absl::string_view::npos)
    line.remove_prefix(error + kError.size());
  return line.empty() ? "its log is empty" : std::string(line);
}

bool CannotWorkForNow(const ProcessKey& key, const Exit& exit) {
  return key == kCoordinatorKey && MeaningOf(exit) == ExitMeaning::kLeft;
}

std::string WhatHappened(const ProcessKey& key, const Exit& exit) {
  if (!exit.not_started.empty())
    return absl::StrCat(key.name, " could not be started: ", exit.not_started);
  if (exit.out_of_memory) return absl::StrCat(key.name, " ran out of memory");
  if (exit.signal != 0) return absl::StrCat(key.name, " was ", CauseOf(exit));
  if (CannotWorkForNow(key, exit))
    return absl::StrCat(key.name, " cannot work for now (", LastWords(exit.last_lines), ")");
  return absl::StrCat(key.name, " ended with ", CauseOf(exit));
}

std::string WhatFollows(const Exit& exit, AfterExit after, Duration delay) {
  switch (after) {
    case AfterExit::kStartsAgain:
      return absl::StrFormat("; it starts again in %.1f s", Seconds(delay));
    case AfterExit::kKeptDown: return "; it is kept down for now";
    case AfterExit::kFinished: return "";
    case AfterExit::kGivenUp:
      return MeaningOf(exit) == ExitMeaning::kHopeless
                 ? "; it is not started again"
                 : "; it fails over and over and is not started again";
  }
  return "";
}

}  // namespace

std::vector<SupervisorAction> Supervisor::Step(const SupervisorEvent& event, Time now) {
  Actions out;
  std::visit([&](const auto& e) { On(e, now, out); }, event);
  StartWhatIsDue(now, out);
  return out;
}

std::optional<Time> Supervisor::NextTick() const {
  std::optional<Time> next;
  for (const auto& [key, process] : processes_) {
    const bool starts =
        process.phase == Phase::kWaiting && process.wanted && !process.kept_down && !stopping_;
    if (!starts && !Ends(process)) continue;
    if (!next || process.due < *next) next = process.due;
  }
  return next;
}

bool Supervisor::Runs(const ProcessKey& key) const {
  const auto it = processes_.find(key);
  return it != processes_.end() && (it->second.phase == Phase::kRunning || Ends(it->second));
}

std::vector<ProcessKey> Supervisor::Running() const {
  std::vector<ProcessKey> keys;
  for (const auto& [key, process] : processes_)
    if (Runs(key)) keys.push_back(key);
  return keys;
}

void Supervisor::Want(const ProcessKey& key, Role role, Time now) {
  auto [it, is_new] = processes_.try_emplace(key);
  Process& process = it->second;
  process.role = role;
  process.wanted = true;
  if (is_new) process.due = now;
}

void Supervisor::On(const WantCoordinator&, Time now, Actions&) {
  if (!stopping_) Want(kCoordinatorKey, Role::kWorker, now);
}

void Supervisor::On(const WantMembers& event, Time now, Actions& out) {
  if (stopping_) return;
  std::set<ProcessKey> listed;
  for (const ProcessWanted& wanted : event.wanted.processes) {
    const ProcessKey key{event.wanted.job, wanted.name};
    listed.insert(key);
    Want(key, wanted.role, now);
  }
  for (auto it = processes_.begin(); it != processes_.end();) {
    const auto& key = it->first;
    Process& process = it->second;
    if (key.job != event.wanted.job || key == kCoordinatorKey || listed.contains(key)) {
      ++it;
      continue;
    }
    process.wanted = false;
    if (process.phase == Phase::kRunning) LetLeave(key, process, now, out);
    it = Runs(key) ? std::next(it) : processes_.erase(it);
  }
}

void Supervisor::On(const SpawnFailed& event, Time now, Actions& out) {
  On(Exited{event.key, Exit{.code = kExitFailed, .not_started = event.reason}}, now, out);
}

void Supervisor::On(const Exited& event, Time now, Actions& out) {
  const auto it = processes_.find(event.key);
  if (it == processes_.end()) return;
  const ProcessKey& key = it->first;
  Process& process = it->second;
  const AfterExit after = Judge(key, process, event.exit, now);
  process.last_exit = event.exit;
  if (event.exit.lanes.incarnation != Incarnation{}) process.counted_exits.push_back(event.exit);
  if (process.counted_exits.size() > kCountedExits) process.counted_exits.pop_front();
  NoteExit note{.key = key, .exit = event.exit, .after = after};
  if (after == AfterExit::kStartsAgain) {
    process.backoff = process.backoff == Duration()
                          ? options_.first_backoff
                          : std::min(process.backoff * 2, options_.longest_backoff);
    note.delay = process.backoff;
  }
  note.text = WhatHappened(key, event.exit) + WhatFollows(event.exit, after, note.delay);
  process.phase = after == AfterExit::kGivenUp    ? Phase::kGivenUp
                  : after == AfterExit::kFinished ? Phase::kFinished
                                                  : Phase::kWaiting;
  process.due = now + note.delay;
  if (key != kCoordinatorKey) out.push_back(TellCoordinator{ReportOf(key, process, event.exit)});
  out.push_back(std::move(note));
  if (!process.wanted) processes_.erase(it);
}

AfterExit Supervisor::Judge(const ProcessKey& key, Process& process, const Exit& exit,
                            Time now) const {
  if (stopping_ || !process.wanted) return AfterExit::kFinished;
  if (process.kept_down) return AfterExit::kKeptDown;
  // Wanted again while its end was under way: what it ended with says nothing.
  if (Ends(process)) return AfterExit::kStartsAgain;
  const ExitMeaning meaning = MeaningOf(exit);
  if (meaning == ExitMeaning::kHopeless) return AfterExit::kGivenUp;
  if (CannotWorkForNow(key, exit)) return AfterExit::kStartsAgain;
  // A coordinator is needed as long as the agent lives, however politely it left.
  if (meaning != ExitMeaning::kFailure && key != kCoordinatorKey) return AfterExit::kFinished;
  return CountFailure(key, process, now) ? AfterExit::kGivenUp : AfterExit::kStartsAgain;
}

// True when it was one too many.
bool Supervisor::CountFailure(const ProcessKey& key, Process& process, Time now) const {
  std::deque<Time>& failures = process.failures;
  while (key == kCoordinatorKey && !failures.empty() &&
         now - failures.front() > options_.coordinator_crash_window)
    failures.pop_front();
  if (failures.empty()) process.backoff = Duration();
  failures.push_back(now);
  return static_cast<int>(failures.size()) >= options_.crash_limit;
}

void Supervisor::Process::StartAfresh() {
  failures.clear();
  backoff = Duration();
}

void Supervisor::On(const Progressed& event, Time now, Actions&) {
  for (auto& [key, process] : processes_) {
    const bool looked_on = key.job == event.key.job && process.phase == Phase::kRunning &&
                           now - process.since >= options_.healthy_after;
    if (key == event.key || key == kCoordinatorKey || looked_on) process.StartAfresh();
  }
}

// Also of processes that run again: what the ones before them had run is known to nobody else, and
// a coordinator that was away waits for them until their lease is over.
void Supervisor::On(const SessionUp&, Time, Actions& out) {
  if (const auto it = processes_.find(kCoordinatorKey);
      it != processes_.end() && it->second.failures.empty())
    it->second.backoff = Duration();  // what it could not do it now can
  for (const auto& [key, process] : processes_) {
    if (key == kCoordinatorKey) continue;
    for (const Exit& exit : process.counted_exits)
      out.push_back(TellCoordinator{ReportOf(key, process, exit)});
    const bool told = process.last_exit && process.last_exit->lanes.incarnation != Incarnation{};
    if (!Runs(key) && process.last_exit && !told)
      out.push_back(TellCoordinator{ReportOf(key, process, *process.last_exit)});
  }
}

void Supervisor::On(const KeepDown& event, Time, Actions&) {
  if (const auto it = processes_.find(event.key); it != processes_.end())
    it->second.kept_down = true;
}

void Supervisor::On(const Release& event, Time now, Actions&) {
  const auto it = processes_.find(event.key);
  if (it == processes_.end()) return;
  it->second.kept_down = false;
  if (it->second.phase == Phase::kWaiting) it->second.due = now;
}

void Supervisor::On(const StopAll&, Time now, Actions& out) {
  const bool at_once = stopping_;
  stopping_ = true;
  for (auto& [key, process] : processes_) {
    if (!Runs(key)) continue;
    if (at_once)
      out.push_back(SendSignal{key, SIGKILL});
    else if (process.phase != Phase::kStopping)
      Stop(key, process, now, out);
  }
}

void Supervisor::On(const Tick&, Time now, Actions& out) {
  for (auto& [key, process] : processes_) {
    if (!Ends(process) || process.due > now) continue;
    if (process.phase == Phase::kLeaving) {
      Stop(key, process, now, out);
      continue;
    }
    out.push_back(SendSignal{key, SIGKILL});
    process.due = now + options_.stop_grace;
  }
}

bool Supervisor::Ends(const Process& process) {
  return process.phase == Phase::kLeaving || process.phase == Phase::kStopping;
}

void Supervisor::LetLeave(const ProcessKey& key, Process& process, Time now, Actions& out) {
  process.phase = Phase::kLeaving;
  process.due = now + options_.leave_grace;
  out.push_back(SendSignal{key, SIGCONT});  // a paused process hears it only when it goes on
}

void Supervisor::Stop(const ProcessKey& key, Process& process, Time now, Actions& out) {
  process.phase = Phase::kStopping;
  process.due = now + options_.stop_grace;
  out.push_back(SendSignal{key, SIGTERM});
  out.push_back(SendSignal{key, SIGCONT});  // a paused process hears SIGTERM only when it goes on
}

void Supervisor::StartWhatIsDue(Time now, Actions& out) {
  if (stopping_) return;
  for (auto& [key, process] : processes_) {
    if (process.phase != Phase::kWaiting || process.kept_down || process.due > now) continue;
    process.phase = Phase::kRunning;
    process.since = now;
    out.push_back(Spawn{key, process.role});
  }
}

ProcessExited Supervisor::ReportOf(const ProcessKey& key, const Process& process,
                                   const Exit& exit) {
  return {.job = key.job,
          .name = key.name,
          .exit_code = exit.signal == 0 ? exit.code : 0,
          .signal = exit.signal,
          .cause = CauseOf(exit),
          // What is hopeless says so by its exit code.
          .gave_up = process.phase == Phase::kGivenUp && MeaningOf(exit) == ExitMeaning::kFailure,
          .lanes = exit.lanes,
          .last_lines = exit.last_lines};
}

}  // namespace muster::agent
