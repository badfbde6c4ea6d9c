// A task whose model the job describes as a list of layers (worker/tasks/layer_list.h); a loss by
// name compares its output with the label.
#pragma once

#include <memory>

#include "muster/task.h"
#include "muster/task_options.h"

namespace muster::worker {

// Tensors are named by the layers' places, as torch.nn.Sequential does: "0.weight",
// "3.residual.1.weight". Throws TaskError: kFailedPrecondition with the layer's path, others as of
// OpenDataSet.
std::unique_ptr<Task> MakeLayers(const TaskOptions& options);

}  // namespace muster::worker
