// What readers are shown of jobs and hosts. Immutable once it is shown.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/journal_entry.h"
#include "coordinator/state/host_records.h"
#include "coordinator/state/launch.h"
#include "coordinator/state/quotas.h"
#include "coordinator/state/rights.h"
#include "coordinator/state/status.h"
#include "lib/domain/message.h"

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
struct KnownCluster {                        // as all stood at one time; none is null
  KnownJobsPtr jobs = std::make_shared<const KnownJobs>();
  std::shared_ptr<const KnownHosts> hosts = std::make_shared<const KnownHosts>();
  std::shared_ptr<const Quotas> quotas = std::make_shared<const Quotas>();
  std::shared_ptr<const std::vector<Token>> tokens = std::make_shared<const std::vector<Token>>();
  std::shared_ptr<const HostRecords> host_records = std::make_shared<const HostRecords>();
  LaunchesPtr launches{};  // null: nobody has decided yet which there are
};
// Its placements are where its members run or are to run: it has started, and has not ended.
bool HoldsPlaces(const JobJournal& job);

// What counts of it where somebody asks for it.
JobRights RightsOf(const JobJournal& job);
// What RulingOn says, as an error: kNotFound, as of a job that is not there; kPermissionDenied.
// `object`: the job's id.
absl::Status CheckRights(const Caller& caller, Need need, const std::string& object,
                         const JobRights* job);

absl::Status NoSuchJob(const std::string& id);
// kNotFound, as NoSuchJob says it.
absl::StatusOr<KnownJobPtr> FindJob(const KnownJobs& jobs, const std::string& id);

// By name: those that know their job and have not joined it, with how far they say they are.
using PreparingProcesses = std::map<std::string, std::optional<HowFar>>;
// What a job waits for, with those of these processes that are workers, or else the follower: they
// prepare, or read their data, which may take minutes, and join only after that. Servers have
// nothing to read.
std::string WithPreparing(const std::string& waits_for, const PreparingProcesses& processes);

}  // namespace muster::coordinator
