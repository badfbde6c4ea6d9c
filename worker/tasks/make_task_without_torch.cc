#include "lib/base/memory_cgroup.h"
#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "lib/task/counting.h"
#include "worker/tasks/make_task.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& training, CopyCounter&) {
  MUSTER_RETURN_IF_ERROR(CheckTask(training));
  MUSTER_RETURN_IF_ERROR(CheckTaskFits(training, MemoryForUs()));
  if (training.task == "counting") return MakeCounting(training);
  return absl::InvalidArgumentError(absl::StrCat(
      "task: '", training.task, "' needs LibTorch and this program was built without it; ",
      "build it with -DMUSTER_WITH_TORCH=ON"));
}

}  // namespace muster::worker
