// From a complete sum to a result and from a result to the next state, chunk by chunk. The same
// functions whoever applies, so that all-reduce and servers give the same bits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"
#include "lib/domain/message.h"
#include "lib/domain/update_rules.h"
#include "lib/domain/validation.h"
#include "lib/optim/optim.h"
#include "lib/wire/tensor_copy.h"

namespace muster {

// Turns the sum over all lanes into the reduced gradient, in place, and measures it. Parameters:
// divided by the weight under `reduction: mean` (a weight of 0 leaves the zeros that stand there);
// their sum of squares where the job measures it; whether they and the loss are finite. Buffers
// stay as they are, and count as finite: they may hold an infinity on purpose, such as a mask. The
// checksum is that of the values left in `sum`. Any thread.
ResultMeta Reduce(const TrainingSpec& training, TensorKind kind, const Partial& total,
                  absl::Span<float> sum);

// state(step) → state(step + 1) of one chunk. Keeps a scratch chunk; used by one thread.
class Updater {
 public:
  // `samples`: of the training data.
  Updater(const TrainingSpec& training, UpdateRules rules, SumPlaces sums, uint64_t samples,
          CopyCounter& copied)
      : training_(training),
        rules_(std::move(rules)),
        sums_(std::move(sums)),
        samples_(samples),
        total_steps_(TotalSteps(training, samples)),
        copied_(copied) {}

  // Of a step, in which it has been cut so often before.
  double RateOf(Step step, int64_t cuts) const;

  // `result` is the reduced gradient, which stays unchanged, a buffer's new value, or the sums of
  // what lanes tell. `norm` is there exactly when the job clips. `to` may be `from`. `slots` are
  // updated in place. What is frozen stays as it is, and its slots +0.0.
  void Apply(const Chunk& chunk, Step step, double rate, std::optional<double> norm,
             absl::Span<const float> result, absl::Span<const float> from, absl::Span<float> to,
             const Slots& slots);

  // Of all of a state, by who has all of it; spans are of the whole flat space. The only way with
  // an optimizer that needs whole tensors. `pause` is called between parts of the work.
  void ApplyAll(const Layout& layout, Step step, double rate, std::optional<double> norm,
                absl::Span<const float> results, absl::Span<const float> from, absl::Span<float> to,
                const Slots& slots, const std::function<void()>& pause);

  // The part of Apply that a step has which is not applied: the moving average of parameters, where
  // the job keeps one, goes on with `parameters`, which stayed as they were. At step 0 it begins as
  // the parameters after it, unless the job is a fork that it came along with.
  void MoveAverage(const Chunk& chunk, Step step, absl::Span<const float> parameters,
                   const Slots& slots);

 private:
  void ApplyByTensor(const Layout& layout, Step step, double rate, float gradient_factor,
                     absl::Span<const float> gradient, absl::Span<const float> from,
                     absl::Span<float> to, const Slots& slots, const std::function<void()>& pause);
  absl::Span<const float> Clipped(absl::Span<const float> gradient, std::optional<double> norm);

  const TrainingSpec training_;
  const UpdateRules rules_;
  const SumPlaces sums_;
  const uint64_t samples_;
  const int64_t total_steps_;
  CopyCounter& copied_;
  std::unique_ptr<float[]> scratch_;  // of kMaxChunkBytes, made when first needed
};

}  // namespace muster
