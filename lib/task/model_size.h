// How large a job's model and data are, by arithmetic alone: whoever checks a specification knows
// it before anything is made of it. Pure. A specification is complete here: it has every parameter
// of its task, each within its range. Of a plug-in's task nothing is known here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lib/domain/job.h"

namespace muster {

// How many numbers the tensors of the task's model hold.
int64_t ModelElements(const TrainingSpec& training);

// What to make smaller, and why.
struct TooLarge {
  std::string field;
  std::string reason;
};

// More chunks than any layout may have, whatever the machines.
std::optional<TooLarge> TooLargeForAJob(const TrainingSpec& training);

// The least that a worker needs is more than `memory` bytes.
std::optional<TooLarge> TooLargeForAWorker(const TrainingSpec& training, int64_t memory);

// kFailedPrecondition, naming the field: either of them.
absl::Status CheckTaskFits(const TrainingSpec& training, int64_t memory);

}  // namespace muster
