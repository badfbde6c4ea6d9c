// Whether a job with sync_batch_norm can run here, beyond what its specification says.
#pragma once

#include "absl/status/status.h"
#include "lib/domain/job.h"
#include "muster/task.h"

namespace muster::worker {

// kFailedPrecondition: the task has nothing that syncs, or a worker would have too many threads.
absl::Status CheckSyncs(const JobSpec& spec, Task& task);

// The lanes that a worker computes at once where the fewest workers are left.
int64_t MostLanesHeld(const JobSpec& spec);

}  // namespace muster::worker
