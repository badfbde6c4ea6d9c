#include "coordinator/state/job_table.h"

#include "absl/strings/str_cat.h"
#include "coordinator/state/kept_jobs.h"
#include "lib/base/exit_codes.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

const JobJournal& JournalOf(const std::variant<StoredJob, JobRun>& job) {
  const JobRun* run = std::get_if<JobRun>(&job);
  return run != nullptr ? run->journal() : std::get<StoredJob>(job).journal;
}

bool NeedsReader(const StoredJob& job) {
  const TrainingSpec& training = job.journal.spec.training;
  return IsStreamed(training) && !NeedsNoMore(StepsOf(training), job.stream.known());
}

}  // namespace

JobTable::JobTable(Leadership leadership, RecoveredState recovered, Time now)
    : leadership_(std::move(leadership)) {
  for (JobJournal& journal : recovered.jobs) {
    const std::string id = journal.id;
    const bool runs = !Ended(journal.phase) && journal.phase != JobPhase::kQueued;
    StoredJob& job =
        Add({std::move(journal), recovered.recorded[id], std::move(recovered.recent[id]),
             std::move(recovered.manifests[id]), std::move(recovered.streams[id])});
    if (Ended(job.journal.phase)) job.ended = now - recovered.since_end[id];
    if (runs) Start(id, now);
  }
}

std::vector<std::string> JobTable::Ids() const {
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  return ids;
}

const JobJournal* JobTable::Find(const std::string& id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &JournalOf(it->second);
}

JobStatus JobTable::StatusOf(const std::string& id) const {
  const Job& job = jobs_.at(id);
  const JobRun* run = std::get_if<JobRun>(&job);
  JobStatus status =
      run != nullptr ? run->Status() : coordinator::StatusOf(std::get<StoredJob>(job));
  status.spec_bytes = BytesOf(status.job.spec);
  if (const auto removals = removals_.find(id); removals != removals_.end()) {
    status.removing = removals->second.under_way;
    status.removals = removals->second.begun;
  }
  return status;
}

std::vector<JobStatus> JobTable::Status() const {
  std::vector<JobStatus> all;
  for (const auto& [id, job] : jobs_) all.push_back(StatusOf(id));
  return all;
}

std::optional<JobIs> JobTable::JobOf(const std::string& id) const {
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || !std::holds_alternative<JobRun>(it->second)) return std::nullopt;
  const JobJournal& job = JournalOf(it->second);
  return JobIs{id, job.start, leadership_.cluster, leadership_.term, job.spec, "", job.environment};
}

Leave JobTable::LeaveOf(const std::string& id) const {
  const JobJournal* job = Find(id);
  if (job == nullptr || !Ended(job->phase))
    return {leadership_.term, kExitLater, absl::StrCat("job ", id, " is not running"),
            leadership_.cluster};
  return {leadership_.term, job->ending.exit_code,
          absl::StrCat("job ", id, " is ", std::string(PhaseName(job->phase))),
          leadership_.cluster};
}

// All hosts at once: there may be thousands of them, and of members.
std::map<std::string, std::vector<JobProcesses>> JobTable::WantedByHost() const {
  std::map<std::string, std::vector<JobProcesses>> wanted;
  for (const auto& [id, job] : jobs_)
    if (const JobRun* run = std::get_if<JobRun>(&job))
      for (auto& [host, processes] : run->ProcessesByHost())
        wanted[host].push_back(std::move(processes));
  return wanted;
}

std::set<std::string> JobTable::HostsWithPlaces() const {
  std::set<std::string> hosts;
  for (const auto& [id, job] : jobs_)
    if (const JobRun* run = std::get_if<JobRun>(&job))
      for (const auto& [name, placement] : run->journal().placements)
        if (placement.host) hosts.insert(*placement.host);
  return hosts;
}

PlacementInput JobTable::InputOfPlacement() const {
  PlacementInput input;
  for (const auto& [id, job] : jobs_) {
    const JobJournal& j = JournalOf(job);
    const RuntimeSpec& runtime = j.spec.runtime;
    if (const JobRun* run = std::get_if<JobRun>(&job))
      input.running.push_back(run->Places());
    else if (j.phase == JobPhase::kQueued)
      input.queued.push_back({id,
                              j.submission,
                              runtime.workers_min,
                              runtime.workers_max,
                              runtime.servers,
                              {},
                              j.spec.queue.priority,
                              j.spec.queue.name_space,
                              runtime.devices,
                              FollowersOf(j.spec.training),
                              NeedsReader(std::get<StoredJob>(job)) ? 1 : 0,
                              runtime.stream.host});
  }
  return input;
}

JobRun* JobTable::RunOf(const std::string& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : std::get_if<JobRun>(&it->second);
}

StoredJob* JobTable::AtRest(const std::string& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : std::get_if<StoredJob>(&it->second);
}

std::vector<std::string> JobTable::Running() const {
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs_)
    if (std::holds_alternative<JobRun>(job)) ids.push_back(id);
  return ids;
}

bool JobTable::BeginRemoval(const std::string& id, LineageNumber lineage, Step step) {
  Removals& removals = removals_[id];
  if (!removals.under_way.emplace(lineage, step).second) return false;
  ++removals.begun;
  Changed(id);
  return true;
}

void JobTable::EndRemoval(const std::string& id, LineageNumber lineage, Step step) {
  const auto removals = removals_.find(id);
  if (removals == removals_.end()) return;
  removals->second.under_way.erase({lineage, step});
  Changed(id);
}

StoredJob& JobTable::Add(StoredJob job) {
  const std::string id = job.journal.id;
  Changed(id);
  return std::get<StoredJob>(jobs_.emplace(id, std::move(job)).first->second);
}

void JobTable::Start(const std::string& id, Time now) {
  Job& job = jobs_.at(id);
  StoredJob stored = std::move(std::get<StoredJob>(job));
  job.emplace<JobRun>(leadership_, std::move(stored), now);
  Changed(id);
}

StoredJob& JobTable::PutToRest(const std::string& id) {
  Job& job = jobs_.at(id);
  StoredJob stored = std::move(std::get<JobRun>(job)).PutToRest();
  Changed(id);
  return job.emplace<StoredJob>(std::move(stored));
}

void JobTable::Erase(const std::string& id) {
  jobs_.erase(id);
  removals_.erase(id);
  Changed(id);
}

}  // namespace muster::coordinator
