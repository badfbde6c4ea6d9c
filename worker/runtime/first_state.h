// What training begins with: the values that the task makes of the seed and, over these, those of
// `initial.file` where the job names one.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/data/initial_values.h"
#include "lib/domain/job.h"
#include "muster/task.h"

namespace muster::worker {

class FirstState {
 public:
  // Errors as of InitialValues::Open.
  static absl::StatusOr<FirstState> Open(const TrainingSpec& training, const Task& task) {
    FirstState first(training.seed);
    if (training.initial.file.empty()) return first;
    absl::StatusOr<InitialValues> values = InitialValues::Open(training.initial, task.Tensors());
    if (!values.ok()) return values.status();
    first.values_ = *std::move(values);
    return first;
  }

  // Nothing: the job names no file.
  const std::optional<InitialValues>& values() const { return values_; }

  // `task` is bound to `space`; `state` is all +0.0 before. The same bits each time. Errors as of
  // Task::Initialize and InitialValues::Write.
  absl::Status Write(Task& task, const FlatSpace& space, absl::Span<float> state,
                     const std::function<void()>& after_each = {}) const {
    if (const absl::Status made = task.Initialize(seed_, state); !made.ok() || !values_)
      return made;
    return values_->Write(space, state, after_each);
  }

 private:
  explicit FirstState(uint64_t seed) : seed_(seed) {}

  uint64_t seed_;
  std::optional<InitialValues> values_;
};

}  // namespace muster::worker
