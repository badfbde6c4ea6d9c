// Whether a gradient is that of its loss: entries of it beside central differences of the loss.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "muster/tensor.h"
#include "worker/commands/check.h"

namespace muster::worker {

// The lane's loss with the parameters as they stand now.
using LossOfLane = std::function<absl::StatusOr<double>()>;

// Draws `entries` entries of `tensors` with `seed`, none twice; all, if there are no more. Half of
// them, rounded up, by chance alone over all entries, so that any part of the gradient that is
// wrong, or missing, is drawn as often as it is large. The others tensor after tensor, of each the
// one of a few whose gradient is largest: so that small tensors have their turn beside large ones,
// and since large entries do not drown in rounding. Where the loss leaves open whether one agrees,
// others are tried in its place, and one that is not told is all that there is. Each of
// `parameters` is moved and put back; `gradient` is what the task computed there, and may be
// written by `loss`. Errors are those of `loss`. The difference is taken at that of several widths
// where rounding and curvature leave least open.
absl::StatusOr<std::vector<CheckedGradient>> CheckGradient(const std::vector<Placed>& tensors,
                                                           uint64_t seed, int entries,
                                                           const LossOfLane& loss,
                                                           absl::Span<float> parameters,
                                                           absl::Span<const float> gradient);

}  // namespace muster::worker
