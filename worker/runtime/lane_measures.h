// What the lanes of a worker measure of a state, on samples that it is not trained with
// (docs/decisions/0093). Train thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/domain/validation.h"
#include "muster/task.h"

namespace muster::worker {

// What the samples of `range` add up to, by metric, in the order of ids and `batch` (at least 1) of
// them at a time. Sums are formed in that order, so the same batch gives the same bits.
// `after_each` is told the end of each batch; an error of its own ends it, too.
// kFailedPrecondition: the task measures other metrics than it named.
absl::StatusOr<std::vector<TaskMetricSum>> SumOver(
    Evaluates& evaluates, IdRange range, uint64_t batch, absl::Span<const float> values,
    const std::function<absl::Status(uint64_t end)>& after_each);

class LaneMeasures {
 public:
  // `task` is the job's own, made once more over what is to be measured; `tensors` are those of the
  // job's model. `training` outlives this. kFailedPrecondition: it measures nothing, or not
  // validation.metric, or has other tensors than `tensors`, or too many samples.
  static absl::StatusOr<std::unique_ptr<LaneMeasures>> Make(std::unique_ptr<Task> task,
                                                            const TrainingSpec& training,
                                                            const std::vector<TensorSpec>& tensors);

  const std::vector<TensorSpec>& sum_tensors() const { return sum_tensors_; }
  const Task& task() const { return *task_; }
  // kFailedPrecondition: checkpoint.keep.best is not measured.
  absl::Status CheckBest(const JobSpec& spec) const;
  // kFailedPrecondition: the samples are those of `trained`, the task over the training data,
  // though data.validation_share is to keep them apart.
  absl::Status CheckSplit(const Task& trained) const;
  // Before anything below.
  absl::Status Bind(const Layout& layout);

  // Of the first samples, at most so many: the same on all members, or their sums would differ.
  absl::StatusOr<std::vector<TaskMetricSum>> Probe(uint64_t most, absl::Span<const float> values);

  // Whether lanes measure state(step) in `step`; `samples`: of the training data.
  bool In(uint64_t samples, Step step) const {
    return !training_.validation.by_follower() && IsMeasuredIn(training_, samples, step);
  }
  // The lane's share. `values` are the flat space of the model; `terms`, the chunk of sums, is all
  // +0.0 before. `goes_on` is called between batches, and an error of its own ends it. Errors as of
  // Task::RunLane.
  absl::Status Measure(LaneId lane, absl::Span<const float> values, absl::Span<float> terms,
                       const std::function<absl::Status()>& goes_on);
  // What all lanes bring, whoever measures them: the bits that the sum of a step has. Errors as of
  // Measure.
  absl::StatusOr<MeasureSums> MeasureAll(absl::Span<const float> values,
                                         const std::function<absl::Status()>& goes_on);

 private:
  LaneMeasures(std::unique_ptr<Task> task, const TrainingSpec& training)
      : task_(std::move(task)), evaluates_(task_->evaluates()), training_(training) {}

  absl::StatusOr<std::vector<TaskMetricSum>> Sums(IdRange range, uint64_t batch,
                                                  absl::Span<const float> values,
                                                  const std::function<absl::Status()>& goes_on);

  const std::unique_ptr<Task> task_;
  Evaluates* const evaluates_;
  const TrainingSpec& training_;
  std::vector<TensorSpec> sum_tensors_;
  SumPlaces places_;
};

}  // namespace muster::worker
