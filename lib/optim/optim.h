// Optimizers as pure element-wise functions on flat fp32 spans. Each element takes the same IEEE
// operations in the same order whatever the SIMD width and wherever a span is cut, so chunks and
// whole tensors give the same bits. The order of operations is that of LibTorch's own SGD, Adam,
// AdamW, RMSprop and Adagrad (without dampening and amsgrad, RMSprop neither centered nor with
// momentum, Adagrad without a decay of its own), except that nothing is fused; the results agree to
// within rounding. Any thread; no allocation.
//
// LAMB and LARS are not element-wise: how far a step goes depends on norms of the whole tensor.
//   LARS (You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks, 2017), as apex and
//   timm have it: with w the values, g the gradient and d the weight decay,
//     ratio = trust·‖w‖ ÷ (‖g‖ + d·‖w‖ + epsilon), 1 where ‖w‖ or ‖g‖ is 0
//     buffer = momentum·buffer + ratio·(g + d·w); w = w - rate·buffer
//   LAMB (You et al.: Large Batch Optimization for Deep Learning: Training BERT in 76 minutes,
//   2019, algorithm 2, without a bound of the norm), as timm has it: with m̂ and v̂ those of Adam,
//     r = m̂ ÷ (√v̂ + epsilon) + d·w; w = w - rate·ratio·r
//     ratio = ‖w‖ ÷ ‖r‖, 1 where one of them is 0
#pragma once

#include <array>
#include <cstdint>
#include <functional>

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
// clipped. Bias corrections are computed in fp64 and rounded once. LAMB and LARS: the span is a
// whole tensor that adapts.
void ApplyUpdate(const OptimizerSpec& spec, int64_t step, double learning_rate,
                 absl::Span<const float> gradient, absl::Span<const float> old_parameters,
                 absl::Span<float> new_parameters, const Slots& slots);

struct TensorStep {
  bool adapts = true;  // false: the ratio is 1
  float gradient_factor =
      1;  // what each element of the gradient is multiplied with first: clips it
  std::function<void()> pause{};  // called between parts of the work; may be empty
};

// One step of one whole tensor with LAMB or LARS, otherwise as above. A norm is the root of a sum
// in fp64: of the squares of each kNormBlock elements (lib/kernels/norm.h), counted from the
// tensor's first, in their order. So it is the same whatever the SIMD width and wherever chunks
// are cut.
inline constexpr size_t kNormBlock = 4096;
void ApplyToTensor(const OptimizerSpec& spec, int64_t step, double learning_rate,
                   const TensorStep& how, absl::Span<const float> gradient,
                   absl::Span<const float> old_parameters, absl::Span<float> new_parameters,
                   const Slots& slots);

// Moves an exponential moving average on: decay·average + (1 - decay)·parameters, as
// torch.optim.swa_utils.get_ema_avg_fn does. `parameters` are those after the step.
void UpdateAverage(double decay, absl::Span<const float> parameters, absl::Span<float> average);

// What to multiply a gradient of that L2 norm with, as torch.nn.utils.clip_grad_norm_ does:
// clip_norm / (norm + 1e-6), at most 1. 1 if clip_norm is 0 (no clipping). A norm that is NaN gives
// NaN, an infinite one 0.
float ClipFactor(double total_norm, double clip_norm);

}  // namespace muster
