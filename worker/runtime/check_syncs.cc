#include "worker/runtime/check_syncs.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

// Of the library that the task computes with, beside those of the lanes: each lane has its own.
constexpr int64_t kMostThreads = 1024;

}  // namespace

int64_t MostLanesHeld(const JobSpec& spec) {
  const int64_t workers = std::max(spec.runtime.workers_min, 1);
  return (spec.training.lanes + workers - 1) / workers;
}

absl::Status CheckSyncs(const JobSpec& spec, Task& task) {
  const TrainingSpec& training = spec.training;
  if (task.syncs() == nullptr || task.syncs()->Phases().empty())
    return absl::FailedPreconditionError(absl::StrCat(
        "sync_batch_norm: task ", training.task,
        " has no batch norm that could sync (muster::torch::SyncBatchNorm); leave it out"));
  const int64_t lanes = MostLanesHeld(spec);
  if (lanes * (training.threads - 1) <= kMostThreads) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "sync_batch_norm: a worker may hold ", lanes, " lanes (lanes ÷ workers.min), each with ",
      training.threads, " threads, and at most ", kMostThreads,
      " threads beside the lanes' own are allowed; make threads or lanes fewer, or workers.min "
      "more"));
}

}  // namespace muster::worker
