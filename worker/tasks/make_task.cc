#include "worker/tasks/make_task.h"

#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "lib/task/counting.h"
#include "worker/tasks/code_lm.h"
#include "worker/tasks/transformer.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const Law& law, CopyCounter& copied) {
  MUSTER_RETURN_IF_ERROR(CheckTask(law));
  if (law.task == "counting") return MakeCounting(law);
  if (law.task == "code-lm") return MakeCodeLm(law, copied);
  if (law.task == "transformer") return MakeTransformer(law, copied);
  return absl::InternalError(
      absl::StrCat("task: '", law.task, "' is registered but not made here"));
}

}  // namespace muster::worker
