#include "worker/commands/evaluate.h"

#include <cmath>
#include <limits>

#include "lib/base/status.h"
#include "lib/domain/auc.h"
#include "worker/runtime/lane_measures.h"

namespace muster::worker {
namespace {

double ValueOf(const TaskMetric& metric, const TaskMetricSum& total) {
  if (metric.kind == TaskMetricKind::kAuc)
    return MeanOf(AucOf(total.counts)).value_or(std::numeric_limits<double>::quiet_NaN());
  if (total.weight == 0) return std::numeric_limits<double>::quiet_NaN();
  const double mean = total.sum / total.weight;
  return metric.kind == TaskMetricKind::kExpOfMean ? std::exp(mean) : mean;
}

}  // namespace

absl::StatusOr<std::vector<Measured>> EvaluateAll(
    Task& task, absl::Span<const float> parameters, uint64_t batch,
    const std::function<void(uint64_t samples)>& progress) {
  Evaluates* const evaluates = task.evaluates();
  if (evaluates == nullptr)
    return absl::UnimplementedError("this task does not evaluate: it derives from no Evaluates");
  const std::vector<TaskMetric> metrics = evaluates->Metrics();
  MUSTER_ASSIGN_OR_RETURN(
      const std::vector<TaskMetricSum> totals,
      SumOver(*evaluates, {0, task.SampleCount()}, batch, parameters, [&](uint64_t samples) {
        progress(samples);
        return absl::OkStatus();
      }));
  std::vector<Measured> measured;
  for (size_t m = 0; m < metrics.size(); ++m)
    measured.push_back({metrics[m].name, ValueOf(metrics[m], totals[m])});
  return measured;
}

}  // namespace muster::worker
