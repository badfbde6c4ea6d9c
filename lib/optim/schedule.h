// The learning rate as a pure function of the step, the same bits on every machine.
#pragma once

#include <cstdint>

#include "lib/domain/job.h"

namespace muster {

// The rate of `step` (from 0) of `total_steps`. With w = warmup_steps, step s < w has (s+1)/w of
// the full rate. The full rate is reached at step max(w-1, 0); from there linear and cosine fall to
// final_ratio of it at the last step.
double LearningRate(const OptimizerSpec& optimizer, const ScheduleSpec& schedule, int64_t step,
                    int64_t total_steps);

}  // namespace muster
