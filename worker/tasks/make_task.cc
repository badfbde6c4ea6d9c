#include "worker/tasks/make_task.h"

#include <utility>

#include "lib/base/status.h"
#include "lib/task/counting.h"
#include "worker/tasks/code_lm.h"
#include "worker/tasks/complete_built_in.h"
#include "worker/tasks/layers.h"
#include "worker/tasks/torchscript.h"
#include "worker/tasks/transformer.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& given, CopyCounter& copied,
                                               ModelFile file, DataPart part) {
  MUSTER_ASSIGN_OR_RETURN(TrainingSpec training, CompleteBuiltIn(given));
  const TaskOptions options{training.parameters, training.data, training.seed,
                            training.threads,    part,          training.validation.paths};
  training.data = options.DataOfPart();
  if (training.task == "counting") return MakeCounting(training);
  if (training.task == "code-lm") return MakeCodeLm(training, copied);
  if (training.task == "transformer") return MakeTransformer(training, copied);
  if (training.task == "layers") return MakeLayers(options);
  if (training.task == "torchscript")
    return MakeTorchScript(options, std::move(file.name), std::move(file.bytes));
  return absl::InternalError(
      absl::StrCat("task: '", training.task, "' is registered but not made here"));
}

}  // namespace muster::worker
