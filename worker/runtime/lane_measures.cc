#include "worker/runtime/lane_measures.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/domain/best_state.h"
#include "lib/kernels/float_env.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<LaneMeasures>> LaneMeasures::Make(
    std::unique_ptr<Task> task, const TrainingSpec& training,
    const std::vector<TensorSpec>& tensors) {
  std::unique_ptr<LaneMeasures> measures(new LaneMeasures(std::move(task), training));
  if (measures->evaluates_ == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(
        "validation: task ", training.task, " measures nothing: it derives from no Evaluates"));
  if (measures->task_->Tensors() != tensors)
    return absl::FailedPreconditionError(absl::StrCat(
        "validation: task ", training.task,
        " makes a model of other tensors over its validation data: are its samples of the same "
        "shape, and its classes the same?"));
  if (const uint64_t n = measures->task_->SampleCount(); !IsSampleCount(n))
    return absl::FailedPreconditionError(
        absl::StrCat("validation: there are ", n, " samples; 1 to ", kMostSamples, " are allowed"));
  MUSTER_ASSIGN_OR_RETURN(measures->sum_tensors_,
                          SumTensors(training.validation, measures->evaluates_->Metrics()));
  return measures;
}

absl::Status LaneMeasures::CheckBest(const JobSpec& spec) const {
  std::vector<std::string> names;
  for (const TaskMetric& metric : evaluates_->Metrics()) names.push_back(metric.name);
  return CheckBestRule(BestRuleOf(spec), names);
}

absl::Status LaneMeasures::Bind(const Layout& layout) {
  places_ = SumPlaces(training_.validation, layout);
  return task_->Bind(layout.ModelSpace());
}

absl::Status LaneMeasures::Measure(LaneId lane, absl::Span<const float> values,
                                   absl::Span<float> terms, const std::function<void()>& goes_on) {
  const IdRange share = MeasuredBy(lane, training_.lanes, task_->SampleCount());
  // As many at a time as a lane of training has, where nothing else is said: so many fit.
  const auto of_lane =
      static_cast<uint64_t>((training_.batch + training_.lanes - 1) / training_.lanes);
  const uint64_t batch =
      training_.validation.batch > 0 ? static_cast<uint64_t>(training_.validation.batch) : of_lane;
  std::vector<TaskMetricSum> totals(places_.metrics());
  for (uint64_t first = share.begin; first < share.end;) {
    const uint64_t end = first + std::min(batch, share.end - first);
    MUSTER_ASSIGN_OR_RETURN(const std::vector<TaskMetricSum> sums, Evaluate(first, end, values));
    for (size_t m = 0; m < totals.size(); ++m) totals[m] += sums[m];
    first = end;
    goes_on();
  }
  places_.Write(totals, terms);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TaskMetricSum>> LaneMeasures::Probe(uint64_t most,
                                                               absl::Span<const float> values) {
  return Evaluate(0, std::min(most, task_->SampleCount()), values);
}

absl::StatusOr<std::vector<TaskMetricSum>> LaneMeasures::Evaluate(uint64_t first, uint64_t end,
                                                                  absl::Span<const float> values) {
  std::vector<uint64_t> samples(end - first);
  std::iota(samples.begin(), samples.end(), first);
  absl::StatusOr<std::vector<TaskMetricSum>> sums = evaluates_->Evaluate(samples, values);
  MUSTER_CHECK(FloatEnvironmentIsSet(), "a task must leave the float environment as it is");
  MUSTER_RETURN_IF_ERROR(
      Prefix(absl::StrCat("validation, samples ", first, " to ", end - 1), sums.status()));
  if (sums->size() != places_.metrics())
    return absl::FailedPreconditionError(absl::StrCat(
        "validation: the task measured ", sums->size(), " metrics and named ", places_.metrics()));
  return sums;
}

}  // namespace muster::worker
