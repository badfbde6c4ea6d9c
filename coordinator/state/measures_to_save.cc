#include "coordinator/state/measures_to_save.h"

#include <utility>

#include "coordinator/state/plan.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {

std::vector<Action> MeasuresToSave(const JobJournal& job, const std::vector<Manifest>& committed,
                                   const RecentSteps& recent) {
  std::vector<Action> saves;
  const BestRule rule = BestRuleOf(job.spec);
  if (!rule.wanted() || !job.environment) return saves;
  const std::vector<TaskMetric> metrics = MetricsIn(job.environment->tensors);
  for (const Manifest& m : committed) {
    const auto record = recent.records.find(m.step);
    if (record == recent.records.end() || !OnAncestry(job.lineages, m.lineage, m.step)) continue;
    if (auto measure = MeasureFor(rule, ValuesOf(metrics, record->second.measures)))
      saves.emplace_back(SaveMeasure{job.id, m.lineage, m.step, *std::move(measure)});
  }
  return saves;
}

}  // namespace muster::coordinator
