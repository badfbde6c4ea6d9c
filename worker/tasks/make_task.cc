#include "worker/tasks/make_task.h"

#include <utility>

#include "examples/code-lm/code_lm.h"
#include "examples/transformer/transformer.h"
#include "lib/base/status.h"
#include "lib/task/counting.h"
#include "worker/tasks/complete_built_in.h"
#include "worker/tasks/layers.h"
#include "worker/tasks/torchscript.h"
#include "worker/torch/flat_module.h"

namespace muster::worker {
namespace {

// Whose sources make a plug-in, too, and which come in by the same door as a plug-in's.
constexpr struct {
  const char* name;
  std::unique_ptr<Task> (*make)(const TaskOptions&);
} kExamples[] = {{"code-lm", code_lm::Make}, {"transformer", transformer::Make}};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TrainingSpec& given, ModelFile file,
                                               DataPart part,
                                               std::shared_ptr<const SpoolMap> spool) {
  MUSTER_ASSIGN_OR_RETURN(const TrainingSpec training, CompleteBuiltIn(given));
  TaskOptions options{training.parameters, training.data, training.seed,
                      training.threads,    part,          training.validation.paths};
  const TaskInfo& info = *FindTask(training.task);
  options.sync_batch_norm = training.sync_batch_norm;
  options.spool = std::move(spool);
  if (!info.data_needed && options.data.samples == 0) options.data.samples = info.default_samples;
  for (const auto& example : kExamples) {
    if (training.task != example.name) continue;
    std::unique_ptr<Task> task;
    MUSTER_RETURN_IF_ERROR(CatchTorch([&] { task = example.make(options); }));
    return task;
  }
  if (training.task == "counting") return MakeCounting(training);
  if (training.task == "layers") return MakeLayers(options);
  if (training.task == "torchscript")
    return MakeTorchScript(options, std::move(file.name), std::move(file.bytes));
  return absl::InternalError(
      absl::StrCat("task: '", training.task, "' is registered but not made here"));
}

}  // namespace muster::worker
