#include "worker/tasks/make_task.h"

#include "lib/base/memory_cgroup.h"
#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "lib/task/counting.h"
#include "worker/tasks/code_lm.h"
#include "worker/tasks/transformer.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& training, CopyCounter& copied) {
  MUSTER_RETURN_IF_ERROR(CheckTask(training));
  MUSTER_RETURN_IF_ERROR(CheckTaskFits(training, MemoryForUs()));
  if (training.task == "counting") return MakeCounting(training);
  if (training.task == "code-lm") return MakeCodeLm(training, copied);
  if (training.task == "transformer") return MakeTransformer(training, copied);
  return absl::InternalError(
      absl::StrCat("task: '", training.task, "' is registered but not made here"));
}

}  // namespace muster::worker
