// What readers are shown of a job. Immutable once it is shown.
#pragma once

#include <memory>
#include <vector>

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

}  // namespace muster::coordinator
