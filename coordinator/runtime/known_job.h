// What readers are shown of jobs and hosts. Immutable once it is shown.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/journal_entry.h"
#include "coordinator/state/status.h"

namespace muster::coordinator {

struct KnownJob {
  JobStatus status;
  JobTimes times;
  JobTail tail;
};
using KnownJobPtr = std::shared_ptr<const KnownJob>;
using KnownJobs = std::vector<KnownJobPtr>;  // in the order of their ids
using KnownJobsPtr = std::shared_ptr<const KnownJobs>;

using KnownHosts = std::vector<HostStatus>;  // by name
struct KnownCluster {                        // as both stood at one time; neither is null
  KnownJobsPtr jobs = std::make_shared<const KnownJobs>();
  std::shared_ptr<const KnownHosts> hosts = std::make_shared<const KnownHosts>();
};
// Its placements are where its members run or are to run: it has started, and has not ended.
bool HoldsPlaces(const JobJournal& job);

absl::Status NoSuchJob(const std::string& id);
// kNotFound, as NoSuchJob says it.
absl::StatusOr<KnownJobPtr> FindJob(const KnownJobs& jobs, const std::string& id);

// What a job waits for, with those of these processes that are workers: they read their data, which
// may take minutes, and join only after that. Servers have none to read.
std::string WithPreparing(const std::string& waits_for, const std::set<std::string>& processes);

}  // namespace muster::coordinator
