#include "lib/optim/update.h"

#include <cmath>

#include "lib/base/bytes.h"
#include "lib/kernels/crc.h"
#include "lib/kernels/finite.h"
#include "lib/kernels/norm.h"
#include "lib/kernels/scale.h"
#include "lib/optim/schedule.h"

namespace muster {

ResultMeta Reduce(const TrainingSpec& training, TensorKind kind, const Partial& total,
                  absl::Span<float> sum) {
  ResultMeta meta{total.weight, total.loss, 0, 0};
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

void Updater::Apply(TensorKind kind, Step step, std::optional<double> norm,
                    absl::Span<const float> result, absl::Span<const float> from,
                    absl::Span<float> to, const Slots& slots) {
  if (kind == TensorKind::kBuffer) return CopyFloats(result, to, copied_);
  const double rate =
      LearningRate(training_.optimizer, training_.schedule, step.value(), total_steps_);
  ApplyUpdate(training_.optimizer, step.value(), rate, Clipped(result, norm), from, to, slots);
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
