#include "lib/base/status.h"
#include "lib/task/counting.h"
#include "worker/tasks/complete_built_in.h"
#include "worker/tasks/make_task.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& given, ModelFile, DataPart,
                                               std::shared_ptr<const SpoolMap>) {
  MUSTER_ASSIGN_OR_RETURN(const TrainingSpec training, CompleteBuiltIn(given));
  if (training.task == "counting") return MakeCounting(training);
  return absl::InvalidArgumentError(absl::StrCat(
      "task: '", training.task, "' needs LibTorch and this program was built without it; ",
      "build it with -DMUSTER_WITH_TORCH=ON"));
}

}  // namespace muster::worker
