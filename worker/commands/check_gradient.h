// Whether a gradient is that of its loss: entries of it beside central differences of the loss.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/domain/layout.h"
#include "worker/commands/check.h"

namespace muster::worker {

// The lane's loss with the parameters as they stand now.
using LossOfLane = std::function<absl::StatusOr<double>()>;

// Draws `entries` entries with `seed`: tensor after tensor, of each the one of a few whose gradient
// is largest, since small ones drown in rounding. Where the loss leaves open whether one agrees,
// others of that tensor are tried in its place, and one that is not told is all that there is. Each
// of `parameters` is moved and put back;
// `gradient` is what the task computed there, and may be written by `loss`. Errors are those of
// `loss`. The difference is taken at that of several widths where rounding and curvature leave
// least open.
absl::StatusOr<std::vector<CheckedGradient>> CheckGradient(const Layout& layout, uint64_t seed,
                                                           int entries, const LossOfLane& loss,
                                                           absl::Span<float> parameters,
                                                           absl::Span<const float> gradient);

}  // namespace muster::worker
