// Which state of a job is its best one (checkpoint.keep: {best: validation.METRIC}). Pure values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/domain/history.h"

namespace muster {

struct JobSpec;

// Before the name of a metric: "validation.loss".
inline constexpr char kMeasuredPrefix[] = "validation.";

// What the best checkpoint of a job is called where none is kept by that name.
inline constexpr char kBest[] = "best";

struct BestRule {
  std::string measure{};  // as "validation.loss"; empty: no state is kept for being the best
  bool less = true;       // is better
  bool wanted() const { return !measure.empty(); }
  bool operator==(const BestRule&) const = default;
};
// validation.metric is judged by validation.mode; of all others less is better of loss and
// perplexity alone.
BestRule BestRuleOf(const JobSpec& spec);

// How good a state is.
struct StateMeasure {
  std::string measure;  // as "validation.loss"
  double value = 0;     // finite
  bool operator==(const StateMeasure&) const = default;
};
// What the rule asks for. Nothing: it is not among them, or is not finite.
std::optional<StateMeasure> MeasureFor(const BestRule& rule,
                                       const std::vector<MetricValue>& values);

// The first of these states, in their order, than which no other is better. One that has another
// measure than the rule's, or none, is not judged. Nothing: none is.
std::optional<size_t> BestOf(const std::vector<std::optional<StateMeasure>>& states,
                             const BestRule& rule);

// `metrics`: the names of those that are measured. kFailedPrecondition, with the field's path: the
// rule asks for another one.
absl::Status CheckBestRule(const BestRule& rule, const std::vector<std::string>& metrics);

}  // namespace muster
