#include "worker/runtime/lane_measures.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/domain/best_state.h"
#include "lib/kernels/add.h"
#include "lib/kernels/float_env.h"
#include "muster/data_set.h"

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

// Parts of one data set may well tell the hash of all of it, and be equally many by chance: then
// the numbers of both tell whether a split gives this.
absl::Status LaneMeasures::CheckSplit(const Task& trained) const {
  const uint64_t samples = task_->SampleCount();
  if (training_.data.validation_share == 0 || !training_.validation.paths.empty() ||
      trained.SampleCount() != samples || trained.DataHash() != task_->DataHash())
    return absl::OkStatus();
  uint64_t left_out = 0;
  for (uint64_t id = 0; id < 2 * samples; ++id) left_out += IsForValidation(training_.data, id);
  if (left_out == samples) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "data.validation_share: task ", training_.task, " leaves nothing out of training: it would ",
      "be measured with the same ", samples, " samples that it is trained with. Name files to ",
      "measure with in validation.paths, or have the task's author take only those samples that ",
      "are of its part (PartOfDataSet and IsOfPart of muster/data_set.h), and tell a DataHash of "
      "each part where it splits in another way"));
}

absl::Status LaneMeasures::Bind(const Layout& layout) {
  places_ = SumPlaces(training_.validation, layout);
  return task_->Bind(layout.ModelSpace());
}

absl::Status LaneMeasures::Measure(LaneId lane, absl::Span<const float> values,
                                   absl::Span<float> terms,
                                   const std::function<absl::Status()>& goes_on) {
  const IdRange share = MeasuredBy(lane, training_.lanes, task_->SampleCount());
  // As many at a time as a lane of training has, where nothing else is said: so many fit.
  const auto of_lane =
      static_cast<uint64_t>((training_.batch + training_.lanes - 1) / training_.lanes);
  const uint64_t batch =
      training_.validation.batch > 0 ? static_cast<uint64_t>(training_.validation.batch) : of_lane;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TaskMetricSum> totals,
                          Sums(share, batch, values, goes_on));
  places_.Write(totals, terms);
  return absl::OkStatus();
}

absl::StatusOr<MeasureSums> LaneMeasures::MeasureAll(absl::Span<const float> values,
                                                     const std::function<absl::Status()>& goes_on) {
  const auto size = static_cast<size_t>(places_.chunk().count);
  std::vector<float> total(size), terms(size);
  for (int32_t lane = 0; lane < training_.lanes; ++lane) {
    std::fill(terms.begin(), terms.end(), 0.0F);
    MUSTER_RETURN_IF_ERROR(Measure(LaneId(lane), values, absl::MakeSpan(terms), goes_on));
    Add(total, terms, absl::MakeSpan(total));
  }
  return places_.MeasuredIn(total);
}

absl::StatusOr<std::vector<TaskMetricSum>> LaneMeasures::Probe(uint64_t most,
                                                               absl::Span<const float> values) {
  const uint64_t end = std::min(most, task_->SampleCount());
  return Sums({0, end}, end, values, [] { return absl::OkStatus(); });
}

absl::StatusOr<std::vector<TaskMetricSum>> LaneMeasures::Sums(
    IdRange range, uint64_t batch, absl::Span<const float> values,
    const std::function<absl::Status()>& goes_on) {
  absl::StatusOr<std::vector<TaskMetricSum>> sums =
      SumOver(*evaluates_, range, batch, values, [&](uint64_t) {
        MUSTER_CHECK(FloatEnvironmentIsSet(), "a task must leave the float environment as it is");
        return goes_on();
      });
  MUSTER_RETURN_IF_ERROR(Prefix("validation", sums.status()));
  return sums;
}

absl::StatusOr<std::vector<TaskMetricSum>> SumOver(
    Evaluates& evaluates, IdRange range, uint64_t batch, absl::Span<const float> values,
    const std::function<absl::Status(uint64_t end)>& after_each) {
  std::vector<TaskMetricSum> totals(evaluates.Metrics().size());
  std::vector<uint64_t> samples;
  for (uint64_t first = range.begin; first < range.end; first += samples.size()) {
    samples.resize(std::min(batch, range.end - first));
    std::iota(samples.begin(), samples.end(), first);
    absl::StatusOr<std::vector<TaskMetricSum>> sums = evaluates.Evaluate(samples, values);
    MUSTER_RETURN_IF_ERROR(
        Prefix(absl::StrCat("samples ", first, " to ", samples.back()), sums.status()));
    if (sums->size() != totals.size())
      return absl::FailedPreconditionError(
          absl::StrCat("the task measured ", sums->size(), " metrics and named ", totals.size()));
    for (size_t m = 0; m < totals.size(); ++m) totals[m] += (*sums)[m];
    MUSTER_RETURN_IF_ERROR(after_each(first + samples.size()));
  }
  return totals;
}

}  // namespace muster::worker
