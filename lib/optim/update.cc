#include "lib/optim/update.h"

#include <algorithm>
#include <cmath>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/kernels/crc.h"
#include "lib/kernels/finite.h"
#include "lib/kernels/norm.h"
#include "lib/kernels/scale.h"
#include "lib/optim/schedule.h"

namespace muster {
namespace {

// Elements of a chunk, or of the flat space.
struct Range {
  size_t begin = 0;
  size_t count = 0;
  template <class T>
  absl::Span<T> Of(absl::Span<T> values) const {
    return values.subspan(begin, count);
  }
  Slots Of(const Slots& slots) const {
    Slots part;
    for (size_t s = 0; s < slots.size(); ++s)
      if (!slots[s].empty()) part[s] = Of(slots[s]);
    return part;
  }
};

Range Between(int64_t begin, int64_t end) {
  return {static_cast<size_t>(begin), static_cast<size_t>(end - begin)};
}

Range RangeOf(const Chunk& chunk) { return Between(chunk.offset, chunk.offset + chunk.count); }

Range Within(const Chunk& chunk, const UpdateRun& run) {
  return Between(run.begin - chunk.offset, run.end - chunk.offset);
}

}  // namespace

ResultMeta Reduce(const TrainingSpec& training, TensorKind kind, const Partial& total,
                  absl::Span<float> sum) {
  ResultMeta meta;
  if (kind != TensorKind::kPhase) meta = {total.weight, total.loss, 0, 0};
  if (kind == TensorKind::kParameter) {
    if (training.reduction == Reduction::kMean && total.weight != 0)
      DivideBy(sum, static_cast<float>(total.weight));
    const bool is_measured = IsMeasured(training);
    if (is_measured) meta.sum_of_squares = SumOfSquares(sum);
    // Squares of fp32 values do not overflow in fp64: their sum is finite exactly if the values
    // are.
    const bool values_are = is_measured ? std::isfinite(meta.sum_of_squares) : AllFinite(sum);
    meta.finite = values_are && std::isfinite(total.loss);
  }
  meta.crc = Crc32c(BytesOf(sum));
  return meta;
}

double Updater::RateOf(Step step, int64_t cuts) const {
  return LearningRate(training_.optimizer, training_.schedule, step.value(), total_steps_, cuts);
}

void Updater::Apply(const Chunk& chunk, Step step, double rate, std::optional<double> norm,
                    absl::Span<const float> result, absl::Span<const float> from,
                    absl::Span<float> to, const Slots& slots) {
  if (chunk.kind == TensorKind::kBuffer) return CopyFloats(result, to, copied_);
  if (chunk.kind == TensorKind::kPhase) return std::fill(to.begin(), to.end(), 0.0f);
  if (chunk.kind == TensorKind::kSum)
    return sums_.Apply(training_, samples_, step, result, from, to);
  MUSTER_CHECK(!IsLayerwise(training_.optimizer.kind), "it needs whole tensors");
  const absl::Span<const float> gradient = Clipped(result, norm);
  for (const UpdateRun& run : rules_.In(chunk.offset, chunk.count)) {
    const Range at = Within(chunk, run);
    if (run.rule.frozen) {
      if (from.data() != to.data()) CopyFloats(at.Of(from), at.Of(to), copied_);
      continue;
    }
    OptimizerSpec optimizer = training_.optimizer;
    optimizer.weight_decay = run.rule.weight_decay;
    Slots own;
    for (int s = 0; s < SlotCount(optimizer.kind); ++s) own[s] = at.Of(slots[s]);
    ApplyUpdate(optimizer, UpdatesBefore(training_.initial) + step.value(),
                rate * run.rule.learning_rate_factor, at.Of(gradient), at.Of(from), at.Of(to), own);
  }
  MoveAverage(chunk, step, to, slots);
}

void Updater::ApplyAll(const Layout& layout, Step step, double rate, std::optional<double> norm,
                       absl::Span<const float> results, absl::Span<const float> from,
                       absl::Span<float> to, const Slots& slots,
                       const std::function<void()>& pause) {
  const bool by_tensor = IsLayerwise(training_.optimizer.kind);
  for (const Chunk& chunk : layout.chunks()) {
    const bool is_parameter = chunk.kind == TensorKind::kParameter;
    if (is_parameter && by_tensor) continue;
    const Range at = RangeOf(chunk);
    Apply(chunk, step, rate, norm, at.Of(results), at.Of(from), at.Of(to),
          is_parameter ? at.Of(slots) : Slots());
    pause();
  }
  if (!by_tensor) return;
  const float factor = norm ? ClipFactor(*norm, training_.clip_norm) : 1.0f;
  ApplyByTensor(layout, step, rate, factor, results, from, to, slots, pause);
}

void Updater::ApplyByTensor(const Layout& layout, Step step, double rate, float gradient_factor,
                            absl::Span<const float> gradient, absl::Span<const float> from,
                            absl::Span<float> to, const Slots& slots,
                            const std::function<void()>& pause) {
  const auto copy = [&](const Range& at) {
    if (from.data() != to.data()) CopyFloats(at.Of(from), at.Of(to), copied_);
  };
  for (const TensorRule& tensor : rules_.tensors()) {
    const Range at = Between(tensor.begin, tensor.end);
    copy(Between(tensor.end, tensor.next));
    if (tensor.rule.frozen) {
      copy(at);
      continue;
    }
    OptimizerSpec optimizer = training_.optimizer;
    optimizer.weight_decay = tensor.rule.weight_decay;
    ApplyToTensor(optimizer, UpdatesBefore(training_.initial) + step.value(),
                  rate * tensor.rule.learning_rate_factor, {tensor.adapts, gradient_factor, pause},
                  at.Of(gradient), at.Of(from), at.Of(to), at.Of(slots));
    pause();
  }
  for (const Chunk& chunk : layout.chunks()) {
    if (chunk.kind != TensorKind::kParameter) continue;
    const Range at = RangeOf(chunk);
    MoveAverage(chunk, step, at.Of(to), at.Of(slots));
  }
}

void Updater::MoveAverage(const Chunk& chunk, Step step, absl::Span<const float> parameters,
                          const Slots& slots) {
  if (chunk.kind != TensorKind::kParameter || training_.ema_decay == 0) return;
  const absl::Span<float> average = slots[SlotCount(training_.optimizer.kind)];
  if (step == Step(0) && !HasAverageBefore(training_.initial))
    return CopyFloats(parameters, average, copied_);
  for (const UpdateRun& run : rules_.In(chunk.offset, chunk.count)) {
    const Range at = Within(chunk, run);
    if (!run.rule.frozen) UpdateAverage(training_.ema_decay, at.Of(parameters), at.Of(average));
  }
}

absl::Span<const float> Updater::Clipped(absl::Span<const float> gradient,
                                         std::optional<double> norm) {
  const float factor = norm ? ClipFactor(*norm, training_.clip_norm) : 1.0f;
  if (factor == 1.0f) return gradient;
  if (!scratch_) scratch_ = std::make_unique<float[]>(kMaxChunkBytes / sizeof(float));
  const absl::Span<float> clipped(scratch_.get(), gradient.size());
  CopyFloats(gradient, clipped, copied_);
  Scale(clipped, factor);
  return clipped;
}

}  // namespace muster
