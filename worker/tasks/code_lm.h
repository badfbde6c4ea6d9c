// A byte-level language model: a decoder-only Transformer (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019: pre-norm blocks, learned positions, GELU) over a
// vocabulary of the 256 bytes.
//
// Sample i is the context + 1 bytes of the corpus from i·stride on; every byte but the first is
// predicted from those before it. A lane's loss is the cross-entropy summed over predicted bytes,
// its weight their number.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "lib/wire/tensor_copy.h"
#include "muster/task.h"

namespace muster::worker {

// `training` is complete (CompleteFor of lib/wire/task_parameters.h); dropout stands after the
// embedding, each attention and each MLP. The returned task is also a `Generates`: of bytes drawn
// at temperature 0.8 that follow the prompt (empty: the start of a file), without the prompt.
// kInvalidArgument: data that is missing, empty or shorter than a sample. kDataLoss: data that
// cannot be read to its end. `copied` outlives the task.
absl::StatusOr<std::unique_ptr<Task>> MakeCodeLm(const TrainingSpec& training, CopyCounter& copied);

}  // namespace muster::worker
