// The table of tasks that this build can run.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "lib/wire/tensor_copy.h"
#include "muster/task.h"

namespace muster::worker {

// The task that `training.task` names, with its data read. `copied` counts what it copies of
// tensors, and outlives it. kInvalidArgument: an unknown task (the message lists the known ones),
// one that this build is without, or bad parameters or data. kDataLoss: data that cannot be read to
// its end.
absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& training, CopyCounter& copied);

}  // namespace muster::worker
