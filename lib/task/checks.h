// What every task checks at its border before it touches a span. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "muster/task.h"

namespace muster {

// kInvalidArgument unless `space` places exactly `tensors`, in their order.
absl::Status CheckSpace(const std::vector<TensorSpec>& tensors, const FlatSpace& space);

// kInvalidArgument: no sample, a sample id of `sample_count` or more, or a span that is not as
// large as `space`.
// At least one, and each below `sample_count`.
absl::Status CheckSamples(absl::Span<const uint64_t> samples, uint64_t sample_count);

absl::Status CheckLane(const LaneInput& input, const GradientSink& sink, const FlatSpace& space,
                       uint64_t sample_count);

}  // namespace muster
