// Optimizers as pure element-wise functions on flat fp32 spans. Each element takes the same IEEE
// operations in the same order whatever the SIMD width and wherever a span is cut, so chunks and
// whole tensors give the same bits. The order of operations is that of LibTorch's own SGD, Adam,
// AdamW, RMSprop and Adagrad (without dampening and amsgrad, RMSprop neither centered nor with
// momentum, Adagrad without a decay of its own), except that nothing is fused; the results agree to
// within rounding. Any thread; no allocation.
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "lib/domain/job.h"

namespace muster {

inline constexpr int kMaxSlots = 3;
// The optimizer's first, then the moving average; those that the job has not stay empty.
using Slots = std::array<absl::Span<float>, kMaxSlots>;

// One step of one span: reads `old_parameters`, writes `new_parameters` (the same memory, or apart)
// and updates `slots` in place, which are all +0.0 before step 0. All spans have equal sizes.
// `step` is the job's, counted from 0. `learning_rate` is the scheduled one of this step
// (lib/optim/schedule.h), not the specification's. `gradient` is complete: unscaled, divided and
// clipped. Bias corrections are computed in fp64 and rounded once.
void ApplyUpdate(const OptimizerSpec& spec, int64_t step, double learning_rate,
                 absl::Span<const float> gradient, absl::Span<const float> old_parameters,
                 absl::Span<float> new_parameters, const Slots& slots);

// Moves an exponential moving average on: decay·average + (1 - decay)·parameters, as
// torch.optim.swa_utils.get_ema_avg_fn does. `parameters` are those after the step.
void UpdateAverage(double decay, absl::Span<const float> parameters, absl::Span<float> average);

// What to multiply a gradient of that L2 norm with, as torch.nn.utils.clip_grad_norm_ does:
// clip_norm / (norm + 1e-6), at most 1. 1 if clip_norm is 0 (no clipping). A norm that is NaN gives
// NaN, an infinite one 0.
float ClipFactor(double total_norm, double clip_norm);

}  // namespace muster
