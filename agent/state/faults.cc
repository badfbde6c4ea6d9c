#include "agent/state/faults.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/hash.h"

namespace muster::agent {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool HasLength(const Fault& fault) { return fault.for_steps || fault.for_time; }

std::string HowLong(const Fault& fault) {
  if (fault.for_steps)
    return absl::StrFormat(" for %d %s", *fault.for_steps,
                           *fault.for_steps == 1 ? "step" : "steps");
  if (fault.for_time) return absl::StrFormat(" for %g s", Seconds(*fault.for_time));
  return "";
}

std::string When(const Fault& fault) {
  if (fault.at_step) return absl::StrCat(" at step ", *fault.at_step);
  if (fault.at_point) return absl::StrCat(" at ", *fault.at_point);
  return absl::StrFormat(" after %g s", Seconds(*fault.at_time));
}

// The process, together with its job where the plan names one.
std::string NameOf(const Fault& fault, const std::string& process) {
  const bool of_job = !fault.job.empty() && process != kCoordinatorKey.name;
  return of_job ? absl::StrCat(process, " of ", fault.job) : process;
}

std::string TextOf(const Fault& fault, const ProcessKey& victim) {
  const std::string name = NameOf(fault, victim.name);
  if (fault.kind == Fault::Kind::kPause)
    return absl::StrCat("fault plan: pauses ", name, HowLong(fault));
  const std::string down =
      HasLength(fault) ? absl::StrCat(" and keeps it down", HowLong(fault)) : "";
  return absl::StrCat("fault plan: kills ", name, " (SIGKILL)", down);
}

bool IsOf(const Fault& fault, const std::string& job) {
  return fault.job.empty() || fault.job == job;
}

}  // namespace

FaultDriver::FaultDriver(FaultPlan plan, Time began)
    : plan_(std::move(plan)), began_(began), progress_(plan_.faults.size()), last_(began) {}

std::vector<FaultAction> FaultDriver::Step(const std::map<std::string, int64_t>& steps,
                                           const std::vector<ProcessKey>& running, Time now) {
  last_ = now;
  Note(steps, now);
  std::vector<FaultAction> out;
  for (size_t i = 0; i < progress_.size(); ++i) {
    Progress& progress = progress_[i];
    if (progress.phase == Phase::kAhead) {
      if (const auto victim = Victim(i, running, now)) Begin(i, *victim, now, out);
    }
    if (progress.phase == Phase::kGoing && IsOver(progress, now)) End(i, now, out);
  }
  return out;
}

void FaultDriver::Note(const std::map<std::string, int64_t>& steps, Time now) {
  std::erase_if(paces_, [&](const auto& pace) { return !steps.contains(pace.first); });
  for (const auto& [job, step] : steps) {
    const auto [it, is_new] = paces_.try_emplace(job, Pace{.step = step, .since = now});
    Pace& pace = it->second;
    if (is_new || pace.step == step) continue;
    pace = {.step = step, .since = now, .took = now - pace.since};
  }
}

bool FaultDriver::IsDue(const Fault& fault, const std::string& job, Time now) const {
  if (fault.at_time) return now - began_ >= *fault.at_time;
  const auto pace = paces_.find(job);
  return fault.at_step && pace != paces_.end() && pace->second.step >= *fault.at_step;
}

// A job that the fault means and that has reached the fault's step. A fault of the coordinator is
// timed by the steps of that job.
std::optional<std::string> FaultDriver::JobInTime(const Fault& fault, Time now) const {
  for (const auto& [job, pace] : paces_)
    if (IsOf(fault, job) && IsDue(fault, job, now)) return job;
  if (fault.at_time && IsDue(fault, fault.job, now)) return fault.job;
  return std::nullopt;
}

bool FaultDriver::IsOver(const Progress& progress, Time now) const {
  if (progress.until_time) return now >= *progress.until_time;
  const auto pace = paces_.find(progress.job);
  const auto last = last_steps_.find(progress.job);
  const int64_t until =
      std::min(*progress.until_step, last == last_steps_.end() ? kNever : last->second);
  return (pace != paces_.end() && pace->second.step >= until) || now >= WaitsUntil(progress);
}

Time FaultDriver::WaitsUntil(const Progress& progress) const {
  const auto it = paces_.find(progress.job);
  const Pace pace = it == paces_.end() ? Pace{.since = began_} : it->second;
  return std::max(pace.since, progress.since) + std::max(kNoStepPatience, 10 * pace.took);
}

std::optional<ProcessKey> FaultDriver::Victim(size_t index, const std::vector<ProcessKey>& running,
                                              Time now) const {
  const Fault& fault = plan_.faults[index];
  std::vector<ProcessKey> candidates;
  for (const ProcessKey& key : running) {
    const bool fits = fault.target == kRandomWorker ? absl::StartsWith(key.name, "worker-")
                                                    : key.name == fault.target;
    if (!fits) continue;
    const bool due = key == kCoordinatorKey ? JobInTime(fault, now).has_value()
                                            : IsOf(fault, key.job) && IsDue(fault, key.job, now);
    if (due) candidates.push_back(key);
  }
  if (candidates.empty()) return std::nullopt;
  return candidates[Mix64(plan_.seed, index) % candidates.size()];
}

void FaultDriver::Begin(size_t index, const ProcessKey& victim, Time now,
                        std::vector<FaultAction>& out) {
  const Fault& fault = plan_.faults[index];
  Progress& progress = progress_[index];
  progress.victim = victim;
  progress.job = victim == kCoordinatorKey ? JobInTime(fault, now).value_or("") : victim.job;
  progress.since = now;
  progress.phase = HasLength(fault) ? Phase::kGoing : Phase::kOver;
  const auto pace = paces_.find(progress.job);
  if (fault.for_steps)
    progress.until_step = (pace == paces_.end() ? 0 : pace->second.step) + *fault.for_steps;
  if (fault.for_time) progress.until_time = now + *fault.for_time;
  if (fault.kind == Fault::Kind::kPause) {
    out.push_back({FaultAction::Do::kPause, victim, TextOf(fault, victim)});
    return;
  }
  if (HasLength(fault)) out.push_back({FaultAction::Do::kKeepDown, victim, ""});
  out.push_back({FaultAction::Do::kKill, victim, TextOf(fault, victim)});
}

void FaultDriver::End(size_t index, Time now, std::vector<FaultAction>& out) {
  Progress& progress = progress_[index];
  progress.phase = Phase::kOver;
  const bool paused = plan_.faults[index].kind == Fault::Kind::kPause;
  const bool waited = progress.until_step && now >= WaitsUntil(progress);
  out.push_back({paused ? FaultAction::Do::kContinue : FaultAction::Do::kRelease, progress.victim,
                 absl::StrCat("fault plan: ", NameOf(plan_.faults[index], progress.victim.name),
                              paused ? " goes on" : " may come back",
                              waited ? ", for without it no step is completed" : "")});
}

std::optional<std::string> FaultDriver::Arm(const ProcessKey& starting) {
  for (size_t i = 0; i < progress_.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (!fault.at_point || fault.target != starting.name || progress_[i].phase != Phase::kAhead)
      continue;
    if (starting != kCoordinatorKey && !IsOf(fault, starting.job)) continue;
    progress_[i].phase = Phase::kArmed;
    progress_[i].victim = starting;
    return fault.at_point;
  }
  return std::nullopt;
}

void FaultDriver::Passed(const ProcessKey& process, absl::string_view point) {
  for (size_t i = 0; i < progress_.size(); ++i) {
    Progress& progress = progress_[i];
    if (progress.phase != Phase::kArmed || progress.victim != process) continue;
    if (absl::StartsWith(*plan_.faults[i].at_point, absl::StrCat(point, ":")))
      progress.phase = Phase::kOver;
  }
}

std::optional<Time> FaultDriver::NextTick() const {
  std::optional<Time> next;
  const auto consider = [&](Time t) {
    if (t > last_ && (!next || t < *next)) next = t;
  };
  for (size_t i = 0; i < progress_.size(); ++i) {
    if (progress_[i].phase == Phase::kAhead && plan_.faults[i].at_time)
      consider(began_ + *plan_.faults[i].at_time);
    if (progress_[i].phase == Phase::kGoing)
      consider(progress_[i].until_time.value_or(WaitsUntil(progress_[i])));
  }
  return next;
}

std::vector<std::string> FaultDriver::Missed() const {
  std::vector<std::string> missed;
  for (size_t i = 0; i < progress_.size(); ++i)
    if (progress_[i].phase == Phase::kAhead || progress_[i].phase == Phase::kArmed)
      missed.push_back(absl::StrCat(plan_.faults[i].kind == Fault::Kind::kKill ? "kill " : "pause ",
                                    NameOf(plan_.faults[i], plan_.faults[i].target),
                                    When(plan_.faults[i])));
  return missed;
}

}  // namespace muster::agent
