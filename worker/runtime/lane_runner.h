// The wrapper around the task: one lane from its number. Knows the samples and the seed of a lane,
// counts every lane it is given, before it runs, in the file that outlives the process, and leaves
// out what is empty. Train thread only.
#pragma once

#include "absl/status/statusor.h"
#include "lib/base/failpoint.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/member/runtime/member_metrics.h"
#include "muster/task.h"

namespace muster::worker {

class LaneRunner {
 public:
  // `counter` may be null. `training` and the rest outlive it.
  LaneRunner(Task& task, const TrainingSpec& training, LaneCounter* counter, TrainMetrics& metrics,
             Failpoints& failpoints)
      : task_(task),
        training_(training),
        counter_(counter),
        metrics_(metrics),
        failpoints_(failpoints) {}

  bool Empty(Step step, LaneId lane) const;
  // Tells a task that reads ahead what will be run: `lanes` of `step` in their order, and of the
  // step after it, where that is below `end`.
  absl::Status TellComing(Step step, absl::Span<const LaneId> lanes, Step end);
  // As Task::RunLane. An empty lane runs nothing: weight 0, and every tensor is final at once.
  absl::StatusOr<LaneOutput> Run(LineageNumber lineage, Step step, LaneId lane,
                                 absl::Span<const float> parameters, const GradientSink& sink);
  // Once more, to look at what it gives: no work for the job, so it is not counted. `gradient` is
  // all +0.0 before.
  absl::StatusOr<LaneOutput> Examine(Step step, LaneId lane, absl::Span<const float> parameters,
                                     absl::Span<float> gradient);
  int64_t lanes_run() const { return lanes_run_; }

 private:
  absl::StatusOr<LaneOutput> Compute(Step step, LaneId lane, int64_t epoch,
                                     absl::Span<const uint64_t> samples,
                                     absl::Span<const float> parameters, const GradientSink& sink);

  Task& task_;
  const TrainingSpec& training_;
  LaneCounter* const counter_;
  TrainMetrics& metrics_;
  Failpoints& failpoints_;
  int64_t lanes_run_ = 0;
};

}  // namespace muster::worker
