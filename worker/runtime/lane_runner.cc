#include "worker/runtime/lane_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/domain/left_out.h"
#include "lib/domain/samples.h"
#include "lib/kernels/float_env.h"

namespace muster::worker {
namespace {

using Moment = std::chrono::steady_clock::time_point;
Moment Now() { return std::chrono::steady_clock::now(); }

}  // namespace

SampleRange LaneRunner::RangeOf(Step step, LaneId lane) const {
  SampleRange range = LaneSamples(training_, samples_, step, lane);
  if (only_tries_) range.epoch = -1;
  return range;
}

bool LaneRunner::Empty(Step step, LaneId lane) const { return RangeOf(step, lane).count == 0; }

absl::Status LaneRunner::TellComing(Step step, absl::Span<const LaneId> lanes, Step end) {
  ReadsAhead* reader = task_.reads_ahead();
  if (reader == nullptr) return absl::OkStatus();
  std::vector<ComingLane> coming;
  for (Step at = step; at < end && at <= step + 1; ++at)
    for (const LaneId lane : lanes) {
      const SampleRange range = RangeOf(at, lane);
      if (range.count > 0) coming.push_back({range.epoch, SampleIds(training_, samples_, range)});
    }
  return reader->Coming(std::move(coming));
}

absl::StatusOr<LaneOutput> LaneRunner::Run(LineageNumber lineage, Step step, LaneId lane,
                                           absl::Span<const float> parameters,
                                           const GradientSink& sink) {
  MUSTER_RETURN_IF_ERROR(Begin(lineage, step, lane, parameters, sink.gradient));
  return RunBegun(step, lane, parameters, sink, {});
}

absl::Status LaneRunner::Begin(LineageNumber lineage, Step step, LaneId lane,
                               absl::Span<const float> parameters, absl::Span<float> gradient) {
  ++lanes_run_;
  if (counter_ != nullptr) MUSTER_RETURN_IF_ERROR(counter_->Count(lineage, step));
  failpoints_.Pass("forward");
  return Measure(step, lane, parameters, gradient);
}

absl::StatusOr<LaneOutput> LaneRunner::RunBegun(Step step, LaneId lane,
                                                absl::Span<const float> parameters,
                                                const GradientSink& sink,
                                                const Exchange& exchange) {
  const Moment begin = Now();
  const SampleRange range = RangeOf(step, lane);
  if (range.count == 0) {
    sink.outcome({});
    for (size_t t = 0; t < layout_.tensors().size(); ++t) sink.ready(t);
    return LaneOutput{};
  }
  const std::vector<uint64_t> samples = SampleIds(training_, samples_, range);
  const Moment computing = Now();
  double waited = 0;  // while others ran, or nobody
  Exchange timed;
  if (exchange)
    timed = [&](size_t phase, absl::Span<const float> terms) {
      const Moment meets = Now();
      auto total = exchange(phase, terms);
      waited += Seconds(Now() - meets);
      return total;
    };
  absl::StatusOr<LaneOutput> output =
      Compute(step, lane, range.epoch, samples, parameters, sink, timed);
  if (output.ok()) MUSTER_RETURN_IF_ERROR(TellLeftOut(step, lane, *output, sink));
  const std::vector<Placed>& tensors = layout_.tensors();
  for (size_t t = 0; t < tensors.size() && output.ok(); ++t)
    if (tensors[t].spec.kind == TensorKind::kSum) sink.ready(t);
  const double ran = Seconds(Now() - computing) - waited;
  if (!output.ok()) return output;  // a lane that was given up is computed again, and counts then
  const double input_of_task = std::min(output->input_seconds, ran);
  metrics_.input.Add(Seconds(computing - begin) + input_of_task);
  metrics_.compute.Add(ran - input_of_task);
  metrics_.samples.Add(static_cast<double>(samples.size()));
  return output;
}

// A guarded task (worker/plugins) leaves out what it may.
absl::Status LaneRunner::TellLeftOut(Step step, LaneId lane, const LaneOutput& output,
                                     const GradientSink& sink) {
  if (output.left_out.empty()) return absl::OkStatus();
  if (!LeavesOut(training_))
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step.value(), ", lane ", lane.value(), ": task ", training_.task,
                     " leaves out samples, and data.on_bad_sample is stop"));
  const uint64_t first = FirstOfLane(training_, samples_, step, lane);
  std::vector<uint64_t> positions;
  for (const uint32_t position : output.left_out) positions.push_back(first + position);
  const auto model = static_cast<size_t>(layout_.model_elements());
  places_.WriteLeftOut(positions, sink.gradient.subspan(model));
  return absl::OkStatus();
}

absl::Status LaneRunner::Measure(Step step, LaneId lane, absl::Span<const float> parameters,
                                 absl::Span<float> gradient) {
  if (measures_ == nullptr || !measures_->In(samples_, step)) return absl::OkStatus();
  const auto model = static_cast<size_t>(layout_.model_elements());
  const Moment begin = Now();
  MUSTER_RETURN_IF_ERROR(
      measures_->Measure(lane, parameters.first(model), gradient.subspan(model), goes_on_));
  metrics_.validation.Add(Seconds(Now() - begin));
  return absl::OkStatus();
}

absl::StatusOr<LaneOutput> LaneRunner::Compute(Step step, LaneId lane, int64_t epoch,
                                               absl::Span<const uint64_t> samples,
                                               absl::Span<const float> parameters,
                                               const GradientSink& sink, const Exchange& exchange) {
  LaneInput input;
  input.step = step.value();
  input.lane = lane.value();
  input.epoch = epoch;
  input.seed = LaneSeed(training_.seed, step, lane);
  input.samples = samples;
  const auto model = static_cast<size_t>(layout_.model_elements());
  input.parameters = parameters.first(model);
  input.exchange = exchange;
  MUSTER_CHECK(FloatEnvironmentIsSet(), "lanes run where subnormal numbers count as zero");
  absl::StatusOr<LaneOutput> output =
      task_.RunLane(input, {sink.gradient.first(model), sink.outcome, sink.ready});
  MUSTER_CHECK(FloatEnvironmentIsSet(), "a task must leave the float environment as it is");
  if (output.ok()) return output;
  return Prefix(absl::StrCat("step ", step.value(), ", lane ", lane.value()), output.status());
}

absl::StatusOr<LaneOutput> LaneRunner::Examine(Step step, LaneId lane,
                                               absl::Span<const float> parameters,
                                               absl::Span<float> gradient,
                                               const Exchange& exchange) {
  const SampleRange range = RangeOf(step, lane);
  if (range.count == 0) return LaneOutput{};
  const std::vector<uint64_t> samples = SampleIds(training_, samples_, range);
  return Compute(step, lane, range.epoch, samples, parameters,
                 {gradient, [](LaneOutput) {}, [](size_t) {}}, exchange);
}

}  // namespace muster::worker
