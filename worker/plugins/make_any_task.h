// A task by its name, wherever it comes from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "lib/wire/tensor_copy.h"
#include "muster/task.h"

namespace muster::worker {

struct MadeTask {
  std::unique_ptr<Task> task;
  // "mlp.so sha256:…", also of a file of TorchScript: all members of a job have the same. Empty:
  // none.
  std::string plugin;
};

// One that is part of Muster (MakeTask of worker/tasks), else of a plug-in in these folders.
// kFailedPrecondition: there is none of that name, with what each plug-in brings or why it brings
// nothing; or bad parameters. kInvalidArgument, kDataLoss: bad data.
// `part`: kTraining, or kValidation, where the job has any.
absl::StatusOr<MadeTask> MakeAnyTask(const TrainingSpec& training, DataPart part,
                                     const std::vector<std::string>& plugin_folders,
                                     CopyCounter& copied);

}  // namespace muster::worker
