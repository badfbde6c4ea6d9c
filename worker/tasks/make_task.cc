#include "worker/tasks/make_task.h"

#include "lib/base/status.h"
#include "lib/task/counting.h"
#include "worker/tasks/code_lm.h"
#include "worker/tasks/complete_built_in.h"
#include "worker/tasks/transformer.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& given, CopyCounter& copied) {
  MUSTER_ASSIGN_OR_RETURN(const TrainingSpec training, CompleteBuiltIn(given));
  if (training.task == "counting") return MakeCounting(training);
  if (training.task == "code-lm") return MakeCodeLm(training, copied);
  if (training.task == "transformer") return MakeTransformer(training, copied);
  return absl::InternalError(
      absl::StrCat("task: '", training.task, "' is registered but not made here"));
}

}  // namespace muster::worker
