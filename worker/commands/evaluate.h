// What a model is worth on all samples of a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "muster/task.h"

namespace muster::worker {

struct Measured {
  std::string name;
  double value = 0;  // NaN: nothing weighed anything
};

// Each sample once, on the train thread, as SumOver does it (worker/runtime/lane_measures.h).
// `progress` is told how many samples are done after each batch. kUnimplemented: the task does not
// evaluate.
absl::StatusOr<std::vector<Measured>> EvaluateAll(
    Task& task, absl::Span<const float> parameters, uint64_t batch,
    const std::function<void(uint64_t samples)>& progress);

}  // namespace muster::worker
