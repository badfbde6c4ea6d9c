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

bool IsDue(const Fault& fault, Time began, std::optional<int64_t> step, Time now) {
  if (fault.at_step) return step && *step >= *fault.at_step;
  return fault.at_time && now - began >= *fault.at_time;
}

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

std::string TextOf(const Fault& fault, const ProcessKey& victim) {
  if (fault.kind == Fault::Kind::kPause)
    return absl::StrCat("fault plan: pauses ", victim.name, HowLong(fault));
  const std::string down =
      HasLength(fault) ? absl::StrCat(" and keeps it down", HowLong(fault)) : "";
  return absl::StrCat("fault plan: kills ", victim.name, " (SIGKILL)", down);
}

}  // namespace

FaultDriver::FaultDriver(FaultPlan plan, Time began)
    : plan_(std::move(plan)),
      began_(began),
      progress_(plan_.faults.size()),
      step_since_(began),
      last_(began) {}

std::vector<FaultAction> FaultDriver::Step(std::optional<int64_t> step,
                                           const std::vector<ProcessKey>& running, Time now) {
  last_ = now;
  if (step != step_) {
    if (step_) step_took_ = now - step_since_;
    step_ = step;
    step_since_ = now;
  }
  std::vector<FaultAction> out;
  for (size_t i = 0; i < progress_.size(); ++i) {
    Progress& progress = progress_[i];
    if (progress.phase == Phase::kAhead && IsDue(plan_.faults[i], began_, step, now)) {
      if (const auto victim = Victim(i, running)) Begin(i, *victim, step, now, out);
    }
    if (progress.phase == Phase::kGoing && IsOver(progress, step, now)) End(i, now, out);
  }
  return out;
}

bool FaultDriver::IsOver(const Progress& progress, std::optional<int64_t> step, Time now) const {
  if (progress.until_time) return now >= *progress.until_time;
  const int64_t until = std::min(*progress.until_step, last_step_.value_or(kNever));
  return (step && *step >= until) || now >= WaitsUntil(progress);
}

Time FaultDriver::WaitsUntil(const Progress& progress) const {
  return std::max(step_since_, progress.since) + std::max(kNoStepPatience, 10 * step_took_);
}

std::optional<ProcessKey> FaultDriver::Victim(size_t index,
                                              const std::vector<ProcessKey>& running) const {
  const Fault& fault = plan_.faults[index];
  std::vector<ProcessKey> candidates;
  for (const ProcessKey& key : running) {
    const bool fits = fault.target == kRandomWorker ? absl::StartsWith(key.name, "worker-")
                                                    : key.name == fault.target;
    if (fits) candidates.push_back(key);
  }
  if (candidates.empty()) return std::nullopt;
  return candidates[Mix64(plan_.seed, index) % candidates.size()];
}

void FaultDriver::Begin(size_t index, const ProcessKey& victim, std::optional<int64_t> step,
                        Time now, std::vector<FaultAction>& out) {
  const Fault& fault = plan_.faults[index];
  Progress& progress = progress_[index];
  progress.victim = victim;
  progress.since = now;
  progress.phase = HasLength(fault) ? Phase::kGoing : Phase::kOver;
  if (fault.for_steps) progress.until_step = step.value_or(0) + *fault.for_steps;
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
  out.push_back(
      {paused ? FaultAction::Do::kContinue : FaultAction::Do::kRelease, progress.victim,
       absl::StrCat("fault plan: ", progress.victim.name, paused ? " goes on" : " may come back",
                    waited ? ", for without it no step is completed" : "")});
}

std::optional<std::string> FaultDriver::Arm(const ProcessKey& starting) {
  for (size_t i = 0; i < progress_.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (!fault.at_point || fault.target != starting.name || progress_[i].phase != Phase::kAhead)
      continue;
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
                                    plan_.faults[i].target, When(plan_.faults[i])));
  return missed;
}

}  // namespace muster::agent
