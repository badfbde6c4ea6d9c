// LibTorch's own nn::Transformer with its default options, on random data in memory: a model of a
// known size, to measure with and to compare with plain LibTorch.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "lib/wire/tensor_copy.h"
#include "muster/task.h"

namespace muster::worker {

// `training` is complete (CompleteFor of lib/wire/task_parameters.h). Sample i is the i-th pair of
// MakeRandomSequences (random_sequences.h) with training.seed. The model reads source and target;
// each of the target_length rows of its output is scored by cross-entropy against the index of the
// largest element of the target's row. A lane's loss is the sum over rows, its weight their number.
// `copied` outlives the task.
absl::StatusOr<std::unique_ptr<Task>> MakeTransformer(const TrainingSpec& training,
                                                      CopyCounter& copied);

}  // namespace muster::worker
