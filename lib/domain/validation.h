// What is measured of a state while a job trains, and what is learned from it
// (docs/decisions/0093). Measures are sums over lanes: tensors of the kind kSum, one for each
// metric, and one for what is learned. Pure values and functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/history.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"
#include "lib/domain/measure.h"
#include "muster/task.h"

namespace muster {

// state(step) is measured in `step`. `samples`: of the training data.
bool IsMeasuredIn(const TrainingSpec& training, uint64_t samples, Step step);

// What is measured of state(s) is brought by the step s + delay − 1, so that state(s + delay) is
// the first that has learned of it (docs/decisions/0111). Workers measure in step s itself:
// delay 1.
int64_t DelayOf(const ValidationSpec& validation);
Step BringerOf(const ValidationSpec& validation, Step measured);
// The state whose measure `step` brings; nothing: it brings none.
std::optional<Step> BroughtIn(const TrainingSpec& training, uint64_t samples, Step step);
// The state before state(step) whose measure it has not learned of: there is one at most.
std::optional<Step> OutstandingIn(const TrainingSpec& training, uint64_t samples, Step step);
// A follower measures state(step) while steps go on, so its checkpoint must come to be. Not the
// last state of all: that is measured before the job is done (docs/decisions/0120).
bool IsFollowed(const TrainingSpec& training, uint64_t samples, Step step);
// From one measured state to the next, of a job with a follower: one of the two cadences is given.
int64_t StepsBetweenMeasures(const TrainingSpec& training, uint64_t samples);
// kInvalidArgument: validation.delay is more than these steps.
absl::Status CheckDelay(const TrainingSpec& training, uint64_t samples);

// Processes that measure beside the workers: one, or none.
inline int32_t FollowersOf(const TrainingSpec& training) {
  return training.validation.wanted() && training.validation.by_follower() ? 1 : 0;
}
// Processes of the job, with fewest and with most workers.
inline int32_t LeastMembersOf(const JobSpec& spec) {
  return spec.runtime.workers_min + spec.runtime.servers + FollowersOf(spec.training) +
         ReadersOf(spec.training);
}
inline int32_t MostMembersOf(const JobSpec& spec) {
  return spec.runtime.workers_max + spec.runtime.servers + FollowersOf(spec.training) +
         ReadersOf(spec.training);
}
// How many floats the sums of these metrics have.
size_t FloatsOf(const std::vector<TaskMetric>& metrics);
// What these sums tell, by metric; nothing: they are of others.
std::vector<Measure> MeasuresOf(const std::vector<TaskMetric>& metrics, const MeasureSums& sums);

// Whether a checkpoint of state(step) may say this: it does exactly where it waits for one.
bool MayPend(const std::optional<PendingMeasure>& pending, const TrainingSpec& training,
             uint64_t samples, const std::vector<TensorSpec>& tensors, Step step);

// Why lanes cannot have added up to them; empty: they can.
std::string WhyNotSums(const MeasureSums& sums);

// An error of the task that measures: it is told as one of the files that it measures with.
absl::Status ErrorOfValidation(const TrainingSpec& training, const absl::Status& status);

// The ids of validation samples that a lane measures.
struct IdRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const IdRange&) const = default;
};
IdRange MeasuredBy(LaneId lane, int32_t lanes, uint64_t samples);

// A lane's terms of all of them fill 2 KiB: those of 2,048 subtrees fit into one frame. One of kAuc
// takes as much as 25 others.
inline constexpr size_t kMostMetrics = 31;
inline constexpr int64_t kMostBytesOfMeasures = 2048;

// The tensors of what these metrics add up to, to stand behind those of the model.
// kFailedPrecondition: none, or more than kMostMetrics, or more than fit, or validation.metric is
// not among them.
absl::StatusOr<std::vector<TensorSpec>> SumTensors(const ValidationSpec& validation,
                                                   const std::vector<TaskMetric>& metrics);
// The metrics that these tensors are for, in their order.
std::vector<TaskMetric> MetricsIn(const std::vector<TensorSpec>& tensors);

// As people want them, by metric.
std::vector<MetricValue> ValuesOf(const std::vector<TaskMetric>& metrics,
                                  const std::vector<Measure>& measures);

// What the measures so far have led to. Part of the state.
struct Learned {
  std::optional<double> best;  // mean
  Step best_step;              // of the state that it was measured of
  int64_t since_best = 0;      // measures after it
  int64_t no_better = 0;       // measures in a row since the best one or the last cut
  int64_t cuts = 0;            // of the rate, by schedule.kind: plateau
  int64_t cuts_before = 0;     // before the last measure
  bool enough = false;         // validation.patience is used up
  bool operator==(const Learned&) const = default;
};
Learned Learn(const TrainingSpec& training, Learned before, Step step, std::optional<double> mean);

// What the sums of a state hold, once a step of them is done.
struct MeasuredState {
  std::vector<Measure> measures;  // of the last step that measured, in the order of the metrics
  Step step;                      // that one
  Learned learned;
  // Of the last step that was not skipped: positions in its samples (lib/domain/left_out.h).
  std::vector<uint64_t> left_out{};
  bool operator==(const MeasuredState&) const = default;
};

// How often the rate of `step` had been cut, as state(step + 1) tells.
int64_t CutsIn(const ValidationSpec& validation, const MeasuredState& after, Step step);

// Where the sums of a job stand in its flat space. Spans are of the chunk of sums.
class SumPlaces {
 public:
  SumPlaces() = default;  // of a job that has none
  SumPlaces(const ValidationSpec& validation, const Layout& layout);

  bool empty() const { return chunk_.count == 0; }
  const Chunk& chunk() const { return chunk_; }
  size_t metrics() const { return places_.size(); }

  // What a lane brings: `terms` was all +0.0. Exact: sums to 2^-48, weights to 2^-12, and counts
  // below 2^24.
  void Write(absl::Span<const TaskMetricSum> measured, absl::Span<float> terms) const;
  // Likewise, of a job that leaves out: positions in the step's samples.
  void WriteLeftOut(absl::Span<const uint64_t> positions, absl::Span<float> terms) const;
  // In place of what lanes brought, which are zeros where a follower measures. `sums`: of as many
  // metrics; what is left out stays as it is.
  void WriteMeasured(const MeasureSums& sums, absl::Span<float> sum) const;
  // What lanes brought of the metrics.
  MeasureSums MeasuredIn(absl::Span<const float> sum) const;
  // The chunk of state(step + 1), of that of state(step) and the sum of what the lanes brought.
  // `to` may be `from`; `samples`: of the training data.
  void Apply(const TrainingSpec& training, uint64_t samples, Step step, absl::Span<const float> sum,
             absl::Span<const float> from, absl::Span<float> to) const;
  MeasuredState Read(absl::Span<const float> state) const;

 private:
  void ApplyMeasures(const TrainingSpec& training, Step measured, absl::Span<const float> sum,
                     const Learned& before, absl::Span<float> to) const;

  Chunk chunk_{0, 0, TensorKind::kSum};
  struct Place {
    size_t at = 0;  // in the chunk
    bool is_auc = false;
  };
  std::vector<Place> places_;   // of each metric
  size_t learned_ = 0;          // where it stands in the chunk
  size_t judged_ = 0;           // index of validation.metric
  size_t left_out_ = 0;         // where the places of samples that are left out stand in the chunk
  size_t left_out_floats_ = 0;  // 0: the job leaves none out
};

}  // namespace muster
