// The jobs of a cluster by id, each at rest or running, and what people and processes are told of
// them. Lives as long as its Coordinator.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/state/host_records.h"
#include "coordinator/state/job_run.h"
#include "coordinator/state/placement.h"
#include "coordinator/state/quotas.h"
#include "coordinator/state/rights.h"
#include "coordinator/state/settings.h"
#include "coordinator/state/status.h"
#include "coordinator/state/stored_job.h"

namespace muster::coordinator {

// What a restart finds: the journal's jobs, each with the records of its current lineage that are
// in the ledger (contiguous from the fork: the step after the last), the last ones, and its
// committed manifests.
struct RecoveredState {
  std::vector<JobJournal> jobs;
  std::map<std::string, Step> recorded;
  std::map<std::string, RecentSteps> recent;
  std::map<std::string, std::vector<Manifest>> manifests;
  std::map<std::string, StreamRows> streams;    // of jobs that have one
  std::set<std::string> drained;                // hosts that are to be empty
  std::map<std::string, std::string> left_out;  // hosts that are left out for all jobs, and why
  Quotas quotas;
  std::map<std::string, Duration> since_end;  // of jobs that have ended; not named: none
  std::vector<Token> tokens;                  // of people
  HostRecords hosts;                          // that may join, or may not any more
};

class JobTable {
 public:
  // Jobs that were under way run again.
  JobTable(Leadership leadership, RecoveredState recovered, Time now);

  // In the order of their ids.
  std::vector<std::string> Ids() const;
  const JobJournal* Find(const std::string& id) const;
  JobStatus StatusOf(const std::string& id) const;  // of one of them
  std::vector<JobStatus> Status() const;
  // What a process that asks for its job is told; nothing: no such job is running.
  std::optional<JobIs> JobOf(const std::string& id) const;
  // What it is told if there is none: to end as its job has ended, or, if the job has not ended, in
  // a way that lets it be started again.
  Leave LeaveOf(const std::string& id) const;
  // What the agent of each host is to run, by host; not named: nothing.
  std::map<std::string, std::vector<JobProcesses>> WantedByHost() const;
  // On which members are placed.
  std::set<std::string> HostsWithPlaces() const;
  PlacementInput InputOfPlacement() const;  // without the hosts

  // Null: the job of that id does not run, or is not at rest, or is unknown. Whoever changes
  // something through these pointers calls Changed.
  JobRun* RunOf(const std::string& id);
  StoredJob* AtRest(const std::string& id);
  std::vector<std::string> Running() const;

  // One of its checkpoints is being deleted. False: that is under way.
  bool BeginRemoval(const std::string& id, LineageNumber lineage, Step step);
  void EndRemoval(const std::string& id, LineageNumber lineage, Step step);

  StoredJob& Add(StoredJob job);
  void Start(const std::string& id, Time now);  // a job at rest
  StoredJob& PutToRest(const std::string& id);  // one that runs
  void Erase(const std::string& id);

  void Changed(const std::string& id) { changed_.insert(id); }
  // Jobs of which StatusOf may tell something else than when this was called last, or that are
  // gone.
  std::set<std::string> TakeChanged() { return std::exchange(changed_, {}); }

 private:
  using Job = std::variant<StoredJob, JobRun>;
  struct Removals {  // of checkpoints, as of JobStatus
    std::set<std::pair<LineageNumber, Step>> under_way;
    int64_t begun = 0;
  };

  const Leadership leadership_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, Removals> removals_;  // of jobs of which a checkpoint was deleted
  std::set<std::string> changed_;             // since somebody looked
};

}  // namespace muster::coordinator
