// The learning rate as a pure function of the step, the same bits on every machine.
#pragma once

#include <cstdint>

#include "lib/domain/job.h"

namespace muster {

// The rate of `step` (from 0) of `total_steps`, as docs/job-spec.md defines it. With w =
// warmup_steps, step s < w has (s+1)/w of the rate that it would have without. The full rate is
// reached at step max(w-1, 0); from there linear, cosine and polynomial fall to final_ratio of it
// at the last step. Step and milestones fall at steps that count from 0, whatever the warm-up. One
// cycle is torch.optim.lr_scheduler.OneCycleLR with cosine annealing and two phases.
// `cuts`: how often it was cut so far, by plateau, which does not fall below final_ratio.
double LearningRate(const OptimizerSpec& optimizer, const ScheduleSpec& schedule, int64_t step,
                    int64_t total_steps, int64_t cuts = 0);

}  // namespace muster
