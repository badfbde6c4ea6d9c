// Where the moving average of a job's parameters stands (ema.decay of its specification). Pure.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/domain/job.h"
#include "lib/domain/manifest.h"

namespace muster {

// Whether state(step) has one: it begins with the first step, unless it came along from a parent.
bool HasAverageAt(const TrainingSpec& training, Step step);

// Its slot in a checkpoint, whose specification `training` is. Every parameter has one, also those
// that are frozen; buffers have none. kFailedPrecondition, with the field: there is none;
// kDataLoss: the checkpoint has other slots than the specification says.
absl::StatusOr<int32_t> AverageSlotOf(const TrainingSpec& training, const Manifest& manifest);

}  // namespace muster
