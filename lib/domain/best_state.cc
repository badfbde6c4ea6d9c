#include "lib/domain/best_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/domain/job.h"

namespace muster {
namespace {

std::string MetricOf(const BestRule& rule) {
  return std::string(absl::StripPrefix(rule.measure, kMeasuredPrefix));
}

}  // namespace

BestRule BestRuleOf(const JobSpec& spec) {
  BestRule rule{.measure = spec.runtime.checkpoint.keep_best};
  const std::string metric = MetricOf(rule);
  const ValidationSpec& validation = spec.training.validation;
  rule.less = metric == validation.metric ? validation.mode == Better::kSmaller
                                          : metric == "loss" || metric == "perplexity";
  return rule;
}

std::optional<StateMeasure> MeasureFor(const BestRule& rule,
                                       const std::vector<MetricValue>& values) {
  const std::string metric = MetricOf(rule);
  for (const MetricValue& value : values)
    if (value.metric == metric && value.value) return StateMeasure{rule.measure, *value.value};
  return std::nullopt;
}

std::optional<size_t> BestOf(const std::vector<std::optional<StateMeasure>>& states,
                             const BestRule& rule) {
  std::optional<size_t> best;
  for (size_t s = 0; s < states.size() && rule.wanted(); ++s) {
    if (!states[s] || states[s]->measure != rule.measure) continue;
    const double value = states[s]->value;
    const bool is_better =
        !best || (rule.less ? value < states[*best]->value : value > states[*best]->value);
    if (is_better) best = s;
  }
  return best;
}

absl::Status CheckBestRule(const BestRule& rule, const std::vector<std::string>& metrics) {
  const std::string metric = MetricOf(rule);
  if (!rule.wanted() || std::find(metrics.begin(), metrics.end(), metric) != metrics.end())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint.keep.best: the task measures no ", metric,
                   "; it measures: ", absl::StrJoin(metrics, ", ")));
}

}  // namespace muster
