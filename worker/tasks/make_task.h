// The table of tasks that this build can run.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "muster/task.h"

namespace muster::worker {

// The file that a job names beside its data, which comes from a folder of the host's operator.
struct ModelFile {
  std::string name;
  std::string bytes;
};

// The task that `training.task` names, with its data read. kInvalidArgument: an unknown task (the
// message lists the known ones), one that this build is without, or bad parameters or data.
// kDataLoss: data that cannot be read to its end. `part`: of the data. `file` is that of the
// parameter `file`, where the task has it. `spool`: as TaskOptions has it. Tasks whose model the
// job brings (BringsItsModel) may throw, here and later.
absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& training, ModelFile file = {},
                                               DataPart part = DataPart::kTraining,
                                               std::shared_ptr<const SpoolMap> spool = nullptr);

}  // namespace muster::worker
