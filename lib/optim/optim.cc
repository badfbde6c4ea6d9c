#include "lib/optim/optim.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/check.h"
#include "lib/domain/update_rules.h"
#include "lib/kernels/norm.h"
#include "lib/kernels/scale.h"
#include "lib/optim/factors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/optim/optim.cc"
#include "hwy/foreach_target.h"
#include "lib/kernels/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

// gradient, or gradient + decay·parameter.
template <bool kDecay, class D>
HWY_INLINE hn::VFromD<D> DecayedGradient(D d, const Memory& at, size_t i, float decay) {
  const auto gradient = hn::LoadU(d, at.gradient + i);
  if constexpr (!kDecay) return gradient;
  const auto parameter = hn::LoadU(d, at.old_parameters + i);
  return hn::Add(gradient, hn::Mul(parameter, hn::Set(d, decay)));
}

template <class D, class V>
HWY_INLINE void StoreParameter(D d, const Memory& at, size_t i, V parameter) {
  hn::StoreU(parameter, d, at.new_parameters + i);
}

template <bool kDecay>
void Sgd(const SgdFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto direction = DecayedGradient<kDecay>(d, at, i, f.weight_decay);
    const auto change = hn::Mul(direction, hn::Set(d, f.minus_rate));
    StoreParameter(d, at, i, hn::Add(hn::LoadU(d, at.old_parameters + i), change));
  });
}

template <bool kDecay, bool kNesterov>
void Momentum(const SgdFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto gradient = DecayedGradient<kDecay>(d, at, i, f.weight_decay);
    const auto kept = hn::Mul(hn::LoadU(d, at.slot0 + i), hn::Set(d, f.momentum));
    auto direction = hn::Add(kept, gradient);
    hn::StoreU(direction, d, at.slot0 + i);
    if constexpr (kNesterov)
      direction = hn::Add(gradient, hn::Mul(direction, hn::Set(d, f.momentum)));
    const auto change = hn::Mul(direction, hn::Set(d, f.minus_rate));
    StoreParameter(d, at, i, hn::Add(hn::LoadU(d, at.old_parameters + i), change));
  });
}

template <bool kDecay, bool kShrink>
void Adam(const AdamFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto gradient = DecayedGradient<kDecay>(d, at, i, f.weight_decay);
    const auto mean = hn::Add(hn::Mul(hn::LoadU(d, at.slot0 + i), hn::Set(d, f.beta1)),
                              hn::Mul(gradient, hn::Set(d, f.rest1)));
    const auto square = hn::Mul(hn::Mul(gradient, hn::Set(d, f.rest2)), gradient);
    const auto spread = hn::Add(hn::Mul(hn::LoadU(d, at.slot1 + i), hn::Set(d, f.beta2)), square);
    hn::StoreU(mean, d, at.slot0 + i);
    hn::StoreU(spread, d, at.slot1 + i);
    const auto root = hn::Div(hn::Sqrt(spread), hn::Set(d, f.root_correction2));
    const auto change =
        hn::Div(hn::Mul(mean, hn::Set(d, f.minus_step_size)), hn::Add(root, hn::Set(d, f.epsilon)));
    auto parameter = hn::LoadU(d, at.old_parameters + i);
    if constexpr (kShrink) parameter = hn::Mul(parameter, hn::Set(d, f.shrink));
    StoreParameter(d, at, i, hn::Add(parameter, change));
  });
}

// parameter + minus_rate·gradient / (√squares + epsilon).
template <class D, class V>
HWY_INLINE void StoreByRoot(D d, const Memory& at, size_t i, V gradient, V squares, float epsilon,
                            float minus_rate) {
  const auto root = hn::Add(hn::Sqrt(squares), hn::Set(d, epsilon));
  const auto change = hn::Div(hn::Mul(gradient, hn::Set(d, minus_rate)), root);
  StoreParameter(d, at, i, hn::Add(hn::LoadU(d, at.old_parameters + i), change));
}

template <bool kDecay>
void Rmsprop(const RmspropFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto gradient = DecayedGradient<kDecay>(d, at, i, f.weight_decay);
    const auto square = hn::Mul(hn::Mul(gradient, hn::Set(d, f.rest)), gradient);
    const auto mean = hn::Add(hn::Mul(hn::LoadU(d, at.slot0 + i), hn::Set(d, f.alpha)), square);
    hn::StoreU(mean, d, at.slot0 + i);
    StoreByRoot(d, at, i, gradient, mean, f.epsilon, f.minus_rate);
  });
}

template <bool kDecay>
void Adagrad(const AdagradFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto gradient = DecayedGradient<kDecay>(d, at, i, f.weight_decay);
    const auto sum = hn::Add(hn::LoadU(d, at.slot0 + i), hn::Mul(gradient, gradient));
    hn::StoreU(sum, d, at.slot0 + i);
    StoreByRoot(d, at, i, gradient, sum, f.epsilon, f.minus_rate);
  });
}

template <bool kDecay>
void Lars(const LarsFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto old = hn::LoadU(d, at.old_parameters + i);
    auto gradient = hn::Mul(hn::LoadU(d, at.gradient + i), hn::Set(d, f.gradient));
    if constexpr (kDecay) gradient = hn::Add(gradient, hn::Mul(old, hn::Set(d, f.weight_decay)));
    const auto kept = hn::Mul(hn::LoadU(d, at.slot0 + i), hn::Set(d, f.momentum));
    const auto direction = hn::Add(kept, hn::Mul(gradient, hn::Set(d, f.ratio)));
    hn::StoreU(direction, d, at.slot0 + i);
    StoreParameter(d, at, i, hn::Add(old, hn::Mul(direction, hn::Set(d, f.minus_rate))));
  });
}

// Moves the moments on, or takes them as they are, and leaves the direction in place of the new
// parameters.
template <bool kMoves, bool kDecay>
void LambDirection(const LambFactors& f, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    auto mean = hn::LoadU(d, at.slot0 + i);
    auto spread = hn::LoadU(d, at.slot1 + i);
    if constexpr (kMoves) {
      const auto gradient = hn::Mul(hn::LoadU(d, at.gradient + i), hn::Set(d, f.gradient));
      mean = hn::Add(hn::Mul(mean, hn::Set(d, f.beta1)), hn::Mul(gradient, hn::Set(d, f.rest1)));
      const auto square = hn::Mul(hn::Mul(gradient, hn::Set(d, f.rest2)), gradient);
      spread = hn::Add(hn::Mul(spread, hn::Set(d, f.beta2)), square);
      hn::StoreU(mean, d, at.slot0 + i);
      hn::StoreU(spread, d, at.slot1 + i);
    }
    const auto root = hn::Div(hn::Sqrt(spread), hn::Set(d, f.root_correction2));
    auto direction =
        hn::Div(hn::Div(mean, hn::Set(d, f.correction1)), hn::Add(root, hn::Set(d, f.epsilon)));
    if constexpr (kDecay) {
      const auto old = hn::LoadU(d, at.old_parameters + i);
      direction = hn::Add(direction, hn::Mul(old, hn::Set(d, f.weight_decay)));
    }
    StoreParameter(d, at, i, direction);
  });
}

void LarsKernel(const LarsFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? Lars<false>(f, at, count) : Lars<true>(f, at, count);
}

void LambMomentsKernel(const LambFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? LambDirection<true, false>(f, at, count)
                      : LambDirection<true, true>(f, at, count);
}

void LambDirectionKernel(const LambFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? LambDirection<false, false>(f, at, count)
                      : LambDirection<false, true>(f, at, count);
}

void AlongKernel(float minus_rate, const float* direction, const Memory& at, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto change = hn::Mul(hn::LoadU(d, direction + i), hn::Set(d, minus_rate));
    StoreParameter(d, at, i, hn::Add(hn::LoadU(d, at.old_parameters + i), change));
  });
}

void SgdKernel(const SgdFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? Sgd<false>(f, at, count) : Sgd<true>(f, at, count);
}

void MomentumKernel(const SgdFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? Momentum<false, false>(f, at, count) : Momentum<true, false>(f, at, count);
}

void NesterovKernel(const SgdFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? Momentum<false, true>(f, at, count) : Momentum<true, true>(f, at, count);
}

void RmspropKernel(const RmspropFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? Rmsprop<false>(f, at, count) : Rmsprop<true>(f, at, count);
}

void AdagradKernel(const AdagradFactors& f, const Memory& at, size_t count) {
  f.weight_decay == 0 ? Adagrad<false>(f, at, count) : Adagrad<true>(f, at, count);
}

void AverageKernel(float decay, float rest, const float* parameters, float* average, size_t count) {
  ForEachElement(count, [&](auto d, size_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::LoadU(d, average + i), hn::Set(d, decay));
    const auto added = hn::Mul(hn::LoadU(d, parameters + i), hn::Set(d, rest));
    hn::StoreU(hn::Add(kept, added), d, average + i);
  });
}

void AdamKernel(const AdamFactors& f, const Memory& at, size_t count) {
  if (f.weight_decay != 0) return Adam<true, false>(f, at, count);
  f.shrink == 1 ? Adam<false, false>(f, at, count) : Adam<false, true>(f, at, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {
namespace {

HWY_EXPORT(SgdKernel);
HWY_EXPORT(MomentumKernel);
HWY_EXPORT(NesterovKernel);
HWY_EXPORT(AdamKernel);
HWY_EXPORT(RmspropKernel);
HWY_EXPORT(AdagradKernel);
HWY_EXPORT(AverageKernel);
HWY_EXPORT(LarsKernel);
HWY_EXPORT(LambMomentsKernel);
HWY_EXPORT(LambDirectionKernel);
HWY_EXPORT(AlongKernel);

// base^exponent by squaring: the same bits on every machine, which std::pow does not promise.
double Power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

SgdFactors MakeSgdFactors(const OptimizerSpec& spec, double learning_rate) {
  return {.weight_decay = static_cast<float>(spec.weight_decay),
          .momentum = static_cast<float>(spec.momentum),
          .minus_rate = static_cast<float>(-learning_rate)};
}

AdamFactors MakeAdamFactors(const OptimizerSpec& spec, int64_t step, double learning_rate) {
  const bool decoupled = spec.kind == OptimizerKind::kAdamW;
  const double correction1 = 1 - Power(spec.beta1, step + 1);
  const double correction2 = 1 - Power(spec.beta2, step + 1);
  return {.weight_decay = decoupled ? 0 : static_cast<float>(spec.weight_decay),
          .shrink = decoupled ? static_cast<float>(1 - learning_rate * spec.weight_decay) : 1,
          .beta1 = static_cast<float>(spec.beta1),
          .rest1 = static_cast<float>(1 - spec.beta1),
          .beta2 = static_cast<float>(spec.beta2),
          .rest2 = static_cast<float>(1 - spec.beta2),
          .root_correction2 = static_cast<float>(std::sqrt(correction2)),
          .epsilon = static_cast<float>(spec.epsilon),
          .minus_step_size = static_cast<float>(-(learning_rate / correction1))};
}

RmspropFactors MakeRmspropFactors(const OptimizerSpec& spec, double learning_rate) {
  return {.weight_decay = static_cast<float>(spec.weight_decay),
          .alpha = static_cast<float>(spec.alpha),
          .rest = static_cast<float>(1 - spec.alpha),
          .epsilon = static_cast<float>(spec.epsilon),
          .minus_rate = static_cast<float>(-learning_rate)};
}

AdagradFactors MakeAdagradFactors(const OptimizerSpec& spec, double learning_rate) {
  return {.weight_decay = static_cast<float>(spec.weight_decay),
          .epsilon = static_cast<float>(spec.epsilon),
          .minus_rate = static_cast<float>(-learning_rate)};
}

LambFactors MakeLambFactors(const OptimizerSpec& spec, int64_t step, float gradient) {
  return {.gradient = gradient,
          .weight_decay = static_cast<float>(spec.weight_decay),
          .beta1 = static_cast<float>(spec.beta1),
          .rest1 = static_cast<float>(1 - spec.beta1),
          .beta2 = static_cast<float>(spec.beta2),
          .rest2 = static_cast<float>(1 - spec.beta2),
          .correction1 = static_cast<float>(1 - Power(spec.beta1, step + 1)),
          .root_correction2 = static_cast<float>(std::sqrt(1 - Power(spec.beta2, step + 1))),
          .epsilon = static_cast<float>(spec.epsilon)};
}

// One step of a tensor, block by block.
class TensorBlocks {
 public:
  TensorBlocks(const TensorStep& how, const Memory& at, size_t count)
      : how_(how), at_(at), count_(count) {}

  // `work` gets the memory of a block and its size.
  template <class Work>
  void ForEach(const Work& work) const {
    for (size_t begin = 0; begin < count_; begin += kNormBlock) {
      work(From(begin), std::min(kNormBlock, count_ - begin));
      if (how_.pause && begin / kNormBlock % kBlocksAtATime == kBlocksAtATime - 1) how_.pause();
    }
  }

 private:
  static constexpr size_t kBlocksAtATime = 64;

  Memory From(size_t begin) const {
    const auto moved = [begin](auto* from) { return from == nullptr ? nullptr : from + begin; };
    return {moved(at_.gradient), moved(at_.old_parameters), moved(at_.new_parameters),
            moved(at_.slot0), moved(at_.slot1)};
  }

  const TensorStep& how_;
  const Memory at_;
  const size_t count_;
};

using Scratch = std::array<float, kNormBlock>;

double SquaresOf(const float* values, size_t count) { return SumOfSquares({values, count}); }

// Of the gradient as it is clipped.
double SquaresOf(const float* gradient, size_t count, float factor, Scratch& scratch) {
  if (factor == 1) return SquaresOf(gradient, count);
  const absl::Span<float> scaled(scratch.data(), count);
  // lint: not tensor bytes (a scratch that only a norm is taken of)
  std::copy_n(gradient, count, scaled.begin());
  Scale(scaled, factor);
  return SumOfSquares(scaled);
}

double LarsRatio(const OptimizerSpec& spec, double value_squares, double gradient_squares) {
  if (value_squares == 0 || gradient_squares == 0) return 1;
  const double values = std::sqrt(value_squares);
  return spec.trust * values /
         (std::sqrt(gradient_squares) + spec.weight_decay * values + spec.epsilon);
}

double LambRatio(double value_squares, double direction_squares) {
  if (value_squares == 0 || direction_squares == 0) return 1;
  return std::sqrt(value_squares) / std::sqrt(direction_squares);
}

void ApplyLars(const OptimizerSpec& spec, double learning_rate, const TensorStep& how,
               const TensorBlocks& blocks) {
  Scratch scratch;
  double values = 0, gradients = 0;
  if (how.adapts) {
    blocks.ForEach([&](const Memory& at, size_t count) {
      values += SquaresOf(at.old_parameters, count);
      gradients += SquaresOf(at.gradient, count, how.gradient_factor, scratch);
    });
  }
  const LarsFactors factors = {.gradient = how.gradient_factor,
                               .weight_decay = static_cast<float>(spec.weight_decay),
                               .ratio = static_cast<float>(LarsRatio(spec, values, gradients)),
                               .momentum = static_cast<float>(spec.momentum),
                               .minus_rate = static_cast<float>(-learning_rate)};
  blocks.ForEach([&](const Memory& at, size_t count) {
    HWY_DYNAMIC_DISPATCH(LarsKernel)(factors, at, count);
  });
}

// The direction is computed twice, which gives the same bits, and so needs no memory for it.
void ApplyLamb(const OptimizerSpec& spec, int64_t step, double learning_rate, const TensorStep& how,
               const TensorBlocks& blocks) {
  const LambFactors factors = MakeLambFactors(spec, step, how.gradient_factor);
  Scratch direction;
  const auto into_scratch = [&direction](Memory at) {
    at.new_parameters = direction.data();
    return at;
  };
  double values = 0, directions = 0;
  blocks.ForEach([&](const Memory& at, size_t count) {
    HWY_DYNAMIC_DISPATCH(LambMomentsKernel)(factors, into_scratch(at), count);
    if (!how.adapts) return;
    values += SquaresOf(at.old_parameters, count);
    directions += SquaresOf(direction.data(), count);
  });
  const auto minus_rate = static_cast<float>(-(learning_rate * LambRatio(values, directions)));
  blocks.ForEach([&](const Memory& at, size_t count) {
    HWY_DYNAMIC_DISPATCH(LambDirectionKernel)(factors, into_scratch(at), count);
    HWY_DYNAMIC_DISPATCH(AlongKernel)(minus_rate, direction.data(), at, count);
  });
}

Memory MemoryOf(const OptimizerSpec& spec, absl::Span<const float> gradient,
                absl::Span<const float> old_parameters, absl::Span<float> new_parameters,
                const Slots& slots) {
  const size_t count = gradient.size();
  MUSTER_CHECK(old_parameters.size() == count && new_parameters.size() == count);
  for (int s = 0; s < SlotCount(spec.kind); ++s) MUSTER_CHECK(slots[s].size() == count);
  return {gradient.data(), old_parameters.data(), new_parameters.data(), slots[0].data(),
          slots[1].data()};
}

}  // namespace

void ApplyToTensor(const OptimizerSpec& spec, int64_t step, double learning_rate,
                   const TensorStep& how, absl::Span<const float> gradient,
                   absl::Span<const float> old_parameters, absl::Span<float> new_parameters,
                   const Slots& slots) {
  MUSTER_CHECK(step >= 0 && IsLayerwise(spec.kind));
  const TensorBlocks blocks(how, MemoryOf(spec, gradient, old_parameters, new_parameters, slots),
                            gradient.size());
  if (spec.kind == OptimizerKind::kLars) return ApplyLars(spec, learning_rate, how, blocks);
  ApplyLamb(spec, step, learning_rate, how, blocks);
}

void ApplyUpdate(const OptimizerSpec& spec, int64_t step, double learning_rate,
                 absl::Span<const float> gradient, absl::Span<const float> old_parameters,
                 absl::Span<float> new_parameters, const Slots& slots) {
  const size_t count = gradient.size();
  MUSTER_CHECK(step >= 0);
  const Memory at = MemoryOf(spec, gradient, old_parameters, new_parameters, slots);
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return HWY_DYNAMIC_DISPATCH(SgdKernel)(MakeSgdFactors(spec, learning_rate), at, count);
    case OptimizerKind::kMomentum:
      if (spec.nesterov)
        return HWY_DYNAMIC_DISPATCH(NesterovKernel)(MakeSgdFactors(spec, learning_rate), at, count);
      return HWY_DYNAMIC_DISPATCH(MomentumKernel)(MakeSgdFactors(spec, learning_rate), at, count);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return HWY_DYNAMIC_DISPATCH(AdamKernel)(MakeAdamFactors(spec, step, learning_rate), at,
                                              count);
    case OptimizerKind::kRmsprop:
      return HWY_DYNAMIC_DISPATCH(RmspropKernel)(MakeRmspropFactors(spec, learning_rate), at,
                                                 count);
    case OptimizerKind::kAdagrad:
      return HWY_DYNAMIC_DISPATCH(AdagradKernel)(MakeAdagradFactors(spec, learning_rate), at,
                                                 count);
    case OptimizerKind::kLamb:
    case OptimizerKind::kLars:
      return ApplyToTensor(spec, step, learning_rate, {}, gradient, old_parameters, new_parameters,
                           slots);
  }
}

void UpdateAverage(double decay, absl::Span<const float> parameters, absl::Span<float> average) {
  MUSTER_CHECK(parameters.size() == average.size());
  HWY_DYNAMIC_DISPATCH(AverageKernel)
  (static_cast<float>(decay), static_cast<float>(1 - decay), parameters.data(), average.data(),
   parameters.size());
}

float ClipFactor(double total_norm, double clip_norm) {
  if (clip_norm == 0) return 1;
  const double factor = clip_norm / (total_norm + 1e-6);
  return factor > 1 ? 1 : static_cast<float>(factor);
}

}  // namespace muster
#endif  // HWY_ONCE
