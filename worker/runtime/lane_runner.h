// The wrapper around the task: one lane from its number. Knows the samples and the seed of a lane,
// counts every lane it is given, before it runs, in the file that outlives the process, and leaves
// out what is empty. Train thread only, but for RunBegun.
#pragma once

#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/failpoint.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/member/runtime/member_metrics.h"
#include "muster/task.h"
#include "worker/runtime/lane_measures.h"
#include "worker/runtime/meeting_lanes.h"

namespace muster::worker {

class LaneRunner {
 public:
  // `counter` may be null, and `measures` too: of a job without validation. `layout`, `training`
  // and the rest outlive it. `goes_on` is called between the batches that are measured.
  LaneRunner(
      Task& task, const Layout& layout, const TrainingSpec& training, LaneMeasures* measures,
      LaneCounter* counter, TrainMetrics& metrics, Failpoints& failpoints,
      std::function<absl::Status()> goes_on = [] { return absl::OkStatus(); })
      : task_(task),
        layout_(layout),
        training_(training),
        measures_(measures),
        counter_(counter),
        metrics_(metrics),
        failpoints_(failpoints),
        goes_on_(std::move(goes_on)),
        places_(training.validation, layout),
        samples_(task.SampleCount()) {}

  // The number of samples is known to be this. Lanes of steps that were known before have the same
  // samples as ever.
  void LearnSamples(uint64_t samples) { samples_ = samples; }
  // From now on lanes are only tried, on samples as they are in epoch -1: of a stream nothing may
  // have come yet.
  void OnlyTry() { only_tries_ = true; }

  bool Empty(Step step, LaneId lane) const;
  // Tells a task that reads ahead what will be run: `lanes` of `step` in their order, and of the
  // step after it, where that is below `end`.
  absl::Status TellComing(Step step, absl::Span<const LaneId> lanes, Step end);
  // As Task::RunLane, of all tensors of the layout: where the step measures, the lane's share of it
  // comes first, and where samples can be left out, it says which were. An empty lane runs nothing
  // else: weight 0, and every tensor is final at once.
  absl::StatusOr<LaneOutput> Run(LineageNumber lineage, Step step, LaneId lane,
                                 absl::Span<const float> parameters, const GradientSink& sink);
  // The same in two, for a job whose lanes meet in phases. What belongs to the train thread: the
  // lane is counted, and its share is measured into `gradient`, which is all +0.0 before.
  absl::Status Begin(LineageNumber lineage, Step step, LaneId lane,
                     absl::Span<const float> parameters, absl::Span<float> gradient);
  // The rest of one that has begun, which may be run on a thread of its own. `exchange`: as
  // LaneInput's.
  absl::StatusOr<LaneOutput> RunBegun(Step step, LaneId lane, absl::Span<const float> parameters,
                                      const GradientSink& sink, const Exchange& exchange);
  // Once more, to look at what it gives: no work for the job, so it is not counted. `gradient` is
  // all +0.0 before.
  absl::StatusOr<LaneOutput> Examine(Step step, LaneId lane, absl::Span<const float> parameters,
                                     absl::Span<float> gradient, const Exchange& exchange = {});
  int64_t lanes_run() const { return lanes_run_; }

 private:
  SampleRange RangeOf(Step step, LaneId lane) const;
  absl::StatusOr<LaneOutput> Compute(Step step, LaneId lane, int64_t epoch,
                                     absl::Span<const uint64_t> samples,
                                     absl::Span<const float> parameters, const GradientSink& sink,
                                     const Exchange& exchange);

  absl::Status Measure(Step step, LaneId lane, absl::Span<const float> parameters,
                       absl::Span<float> gradient);
  absl::Status TellLeftOut(Step step, LaneId lane, const LaneOutput& output,
                           const GradientSink& sink);

  Task& task_;
  const Layout& layout_;
  const TrainingSpec& training_;
  LaneMeasures* const measures_;
  LaneCounter* const counter_;
  TrainMetrics& metrics_;
  Failpoints& failpoints_;
  const std::function<absl::Status()> goes_on_;
  const SumPlaces places_;
  uint64_t samples_;  // of the training data, as far as it is known
  bool only_tries_ = false;
  int64_t lanes_run_ = 0;
};

}  // namespace muster::worker
