// A task by its name, wherever it comes from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "muster/task.h"
#include "muster/task_info.h"
#include "worker/plugins/prepare_task.h"
#include "worker/tasks/remembers.h"

namespace muster::worker {

struct MadeTask {
  std::unique_ptr<Task> task;
  // "mlp.so sha256:…", also of a file of TorchScript: all members of a job have the same. Empty:
  // none.
  std::string plugin;
  PreparedPtr prepared{};                   // lives as long as the task; null: it prepares nothing
  std::vector<TaskParameter> parameters{};  // that the task declares
  Remembers* remembers = nullptr;           // a side of the task; null: it has none
};

// One that is part of Muster (MakeTask of worker/tasks), else of a plug-in in these folders.
// kFailedPrecondition: bad parameters; or, as LackOfPlugin, there is none of that name, with what
// each plug-in brings or why it brings nothing, or this host has no such model file.
// kInvalidArgument, kDataLoss: bad data. kAborted: the plug-in or model file is another one than
// Preparing::plugin, or than the one that this process has loaded; a process that starts now takes
// the new one for all. `part`: kTraining, or kValidation, where the job has any; or kNone, of a
// model that is to generate, which becomes kTraining where the task has no model_holds_all.
// `spool`: as TaskOptions has it. Errors as of PrepareTask, too.
absl::StatusOr<MadeTask> MakeAnyTask(const TrainingSpec& training, DataPart part,
                                     const std::vector<std::string>& plugin_folders,
                                     const Preparing& preparing = {},
                                     std::shared_ptr<const SpoolMap> spool = nullptr);

}  // namespace muster::worker
