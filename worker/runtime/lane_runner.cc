#include "worker/runtime/lane_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/domain/samples.h"
#include "lib/kernels/float_env.h"

namespace muster::worker {
namespace {

using Moment = std::chrono::steady_clock::time_point;
Moment Now() { return std::chrono::steady_clock::now(); }

}  // namespace

bool LaneRunner::Empty(Step step, LaneId lane) const {
  return LaneSamples(training_, task_.SampleCount(), step, lane).count == 0;
}

absl::StatusOr<LaneOutput> LaneRunner::Run(LineageNumber lineage, Step step, LaneId lane,
                                           absl::Span<const float> parameters,
                                           const GradientSink& sink) {
  ++lanes_run_;
  if (counter_ != nullptr) MUSTER_RETURN_IF_ERROR(counter_->Count(lineage, step));
  failpoints_.Pass("forward");
  const Moment begin = Now();
  const SampleRange range = LaneSamples(training_, task_.SampleCount(), step, lane);
  if (range.count == 0) {
    sink.outcome({});
    for (size_t t = 0; t < task_.Tensors().size(); ++t) sink.ready(t);
    return LaneOutput{};
  }
  const std::vector<uint64_t> samples = SampleIds(training_, task_.SampleCount(), range);
  const Moment computing = Now();
  absl::StatusOr<LaneOutput> output = Compute(step, lane, samples, parameters, sink);
  const double ran = Seconds(Now() - computing);
  const double input_of_task = output.ok() ? std::min(output->input_seconds, ran) : 0;
  metrics_.input.Add(Seconds(computing - begin) + input_of_task);
  metrics_.compute.Add(ran - input_of_task);
  metrics_.samples.Add(static_cast<double>(samples.size()));
  return output;
}

absl::StatusOr<LaneOutput> LaneRunner::Compute(Step step, LaneId lane,
                                               absl::Span<const uint64_t> samples,
                                               absl::Span<const float> parameters,
                                               const GradientSink& sink) {
  LaneInput input;
  input.step = step.value();
  input.lane = lane.value();
  input.seed = LaneSeed(training_.seed, step, lane);
  input.samples = samples;
  input.parameters = parameters;
  MUSTER_CHECK(FloatEnvironmentIsSet(), "lanes run where subnormal numbers count as zero");
  absl::StatusOr<LaneOutput> output = task_.RunLane(input, sink);
  MUSTER_CHECK(FloatEnvironmentIsSet(), "a task must leave the float environment as it is");
  if (output.ok()) return output;
  return Prefix(absl::StrCat("step ", step.value(), ", lane ", lane.value()), output.status());
}

absl::StatusOr<LaneOutput> LaneRunner::Examine(Step step, LaneId lane,
                                               absl::Span<const float> parameters,
                                               absl::Span<float> gradient) {
  const SampleRange range = LaneSamples(training_, task_.SampleCount(), step, lane);
  if (range.count == 0) return LaneOutput{};
  const std::vector<uint64_t> samples = SampleIds(training_, task_.SampleCount(), range);
  return Compute(step, lane, samples, parameters, {gradient, [](LaneOutput) {}, [](size_t) {}});
}

}  // namespace muster::worker
