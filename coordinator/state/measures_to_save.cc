#include "coordinator/state/measures_to_save.h"

#include <algorithm>
#include <utility>
#include <vector>

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
    if (!OnAncestry(job.lineages, m.lineage, m.step)) continue;
    const auto* brought = recent.MeasuresOf(BringerOf(job.spec.training.validation, m.step));
    // What a follower says of it is known before the step that brings it, and of the last state
    // there is no such step.
    const auto fact =
        std::find_if(recent.facts.begin(), recent.facts.end(), [&](const auto& known) {
          return known.first.second == m.step &&
                 OnAncestry(job.lineages, known.first.first, m.step);
        });
    std::vector<Measure> measures;
    if (brought != nullptr && !brought->empty())
      measures = *brought;
    else if (fact != recent.facts.end())
      measures = MeasuresOf(metrics, fact->second);
    if (auto measure = MeasureFor(rule, ValuesOf(metrics, measures)))
      saves.emplace_back(SaveMeasure{job.id, m.lineage, m.step, *std::move(measure)});
  }
  return saves;
}

}  // namespace muster::coordinator
