#include "coordinator/state/job_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {

std::string_view PhaseName(JobPhase phase) {
  switch (phase) {
    case JobPhase::kQueued: return "queued";
    case JobPhase::kChecking: return "checking";
    case JobPhase::kStarting: return "starting";
    case JobPhase::kRunning: return "running";
    case JobPhase::kRecovering: return "recovering";
    case JobPhase::kStopping: return "stopping";
    case JobPhase::kDone: return "done";
    case JobPhase::kStopped: return "stopped";
    case JobPhase::kFailed: return "failed";
    case JobPhase::kCancelled: return "cancelled";
  }
  return "unknown";
}

bool Ended(JobPhase phase) {
  return phase == JobPhase::kDone || phase == JobPhase::kStopped || phase == JobPhase::kFailed ||
         phase == JobPhase::kCancelled;
}

bool CanGoOn(JobPhase phase) { return phase == JobPhase::kStopped || phase == JobPhase::kFailed; }

int32_t WorkersOf(const JobJournal& job) {
  return static_cast<int32_t>(
      std::count_if(job.placements.begin(), job.placements.end(),
                    [](const auto& entry) { return entry.second.role == Role::kWorker; }));
}

void Vacate(Placement& placement) {
  placement = {.role = placement.role, .leaving = placement.leaving};
}

const Placement* PlacementOf(const JobJournal& job, const std::string& member) {
  const auto it = job.placements.find(member);
  return it == job.placements.end() ? nullptr : &it->second;
}

std::string HostOfMember(const JobJournal& job, const std::string& member) {
  const Placement* placement = PlacementOf(job, member);
  return placement == nullptr ? "" : placement->host.value_or("");
}

Step AdoptedAt(const JobJournal& job) {
  return job.lineages.empty() ? Step(0) : job.lineages.front().fork;
}

const NumericEnvironment* EnvironmentOfSteps(const JobJournal& job) {
  if (job.accepted) return &job.accepted->environment;
  const bool has_steps = job.view || AdoptedAt(job) > Step(0);
  return has_steps && job.environment ? &*job.environment : nullptr;
}

void Accept(JobJournal& job, const Accepts& accepts, const std::string& by) {
  const NumericEnvironment* held = EnvironmentOfSteps(job);
  if (held == nullptr) return;  // nothing binds yet
  NumericEnvironment environment = *held;
  job.accepted.reset();
  job.environment = environment;  // what was told since then made no step
  if (accepts.plugin) job.accepted = {std::move(environment), by};
}

std::vector<PluginUse> PluginUsesOf(const JobJournal& job) {
  const NumericEnvironment* held = EnvironmentOfSteps(job);
  if (held == nullptr) return {};
  const std::string first =
      job.plugin_changes.empty() ? PluginOf(*held) : job.plugin_changes.front().before;
  return PluginUses(first, AdoptedAt(job), job.plugin_changes, job.lineages);
}

std::string WhyNotDeleted(const JobJournal& job) {
  if (Ended(job.phase)) return "";
  return absl::StrCat("job ", job.id, " is ", std::string(PhaseName(job.phase)),
                      "; stop or cancel it before it is deleted");
}

}  // namespace muster::coordinator
