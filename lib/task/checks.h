// What every task checks at its border before it touches a span. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"
#include "lib/task/task.h"

namespace muster {

// kInvalidArgument, naming the field: an unknown task, or parameters or data that
// lib/task/registry.h does not allow it.
absl::Status CheckTask(const TrainingSpec& training);

// kFailedPrecondition, naming the field: its model or its data is larger than a job may have, or
// than `memory` bytes hold. After CheckTask.
absl::Status CheckTaskFits(const TrainingSpec& training, int64_t memory);

// kInvalidArgument unless `layout` places exactly `tensors`, in their order.
absl::Status CheckLayout(const std::vector<TensorSpec>& tensors, const Layout& layout);

// kInvalidArgument: no sample, a sample id of `sample_count` or more, or a span that is not the
// layout's size.
absl::Status CheckLane(const LaneInput& input, const GradientSink& sink, const Layout& layout,
                       uint64_t sample_count);

}  // namespace muster
