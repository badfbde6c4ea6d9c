// The task that shows whether each sample was used exactly once: one weight per sample id, which a
// sample's gradient of -1 raises by one under `reduction: sum`, SGD and learning rate 1. After E
// epochs every weight equals E.
#pragma once

#include <memory>

#include "lib/domain/job.h"
#include "muster/task.h"

namespace muster {

// The weights of `training.data.samples` ids (0: the registry's default), as up to three tensors of
// unequal sizes, "count.0" holding the lowest ids. A lane's loss is the sum of its samples' weights
// before the step, its weight their number.
std::unique_ptr<Task> MakeCounting(const TrainingSpec& training);

}  // namespace muster
