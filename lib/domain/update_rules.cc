#include "lib/domain/update_rules.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr size_t kNamesShown = 8;

bool Matches(const ParameterGroup& group, const TensorSpec& parameter) {
  const std::vector<std::string> names = parameter.Names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return MatchesPattern(group.match, name); });
}

std::optional<size_t> GroupOf(const TrainingSpec& training, const TensorSpec& parameter) {
  for (size_t g = 0; g < training.groups.size(); ++g)
    if (Matches(training.groups[g], parameter)) return g;
  return std::nullopt;
}

bool IsDecayedOn(const TrainingSpec& training, const TensorSpec& parameter) {
  return training.optimizer.weight_decay_on == DecayOn::kAll || parameter.shape.size() >= 2;
}

UpdateRule RuleOf(const TrainingSpec& training, std::optional<size_t> group,
                  const TensorSpec& parameter) {
  UpdateRule rule;
  rule.weight_decay = IsDecayedOn(training, parameter) ? training.optimizer.weight_decay : 0;
  if (!group) return rule;
  const ParameterGroup& of = training.groups[*group];
  rule.learning_rate_factor = of.learning_rate_factor;
  rule.weight_decay = of.weight_decay.value_or(rule.weight_decay);
  rule.frozen = of.frozen;
  return rule;
}

std::string NamesOf(const Layout& layout) {
  std::vector<std::string> names;
  for (const Placed& tensor : layout.tensors())
    if (tensor.spec.kind == TensorKind::kParameter) names.push_back(tensor.spec.name);
  const size_t more = names.size() > kNamesShown ? names.size() - kNamesShown : 0;
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

absl::Status NothingBelongsTo(const TrainingSpec& training, size_t group, const Layout& layout) {
  const std::string& match = training.groups[group].match;
  const bool matches =
      std::any_of(layout.tensors().begin(), layout.tensors().end(), [&](const Placed& tensor) {
        return tensor.spec.kind == TensorKind::kParameter &&
               Matches(training.groups[group], tensor.spec);
      });
  return absl::FailedPreconditionError(absl::StrCat(
      "groups[", group, "].match: '", match, "' ",
      matches ? "matches only parameters of groups before it; write the narrower group first"
              : absl::StrCat("matches no parameter; there are ", NamesOf(layout))));
}

}  // namespace

bool IsLayerwise(OptimizerKind kind) {
  return kind == OptimizerKind::kLamb || kind == OptimizerKind::kLars;
}

absl::StatusOr<UpdateRules> UpdateRules::Make(const TrainingSpec& training, const Layout& layout) {
  std::vector<const Placed*> parameters;
  for (const Placed& tensor : layout.tensors())
    if (tensor.spec.kind == TensorKind::kParameter) parameters.push_back(&tensor);
  std::sort(parameters.begin(), parameters.end(),
            [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  UpdateRules rules;
  std::vector<bool> used(training.groups.size());
  for (const Placed* parameter : parameters) {
    const std::optional<size_t> group = GroupOf(training, parameter->spec);
    if (group) used[*group] = true;
    const UpdateRule rule = RuleOf(training, group, parameter->spec);
    rules.any_frozen_ |= rule.frozen;
    if (rules.runs_.empty() || rules.runs_.back().rule != rule)
      rules.runs_.push_back({parameter->offset, 0, rule});
    if (!rules.tensors_.empty()) rules.tensors_.back().next = parameter->offset;
    rules.tensors_.push_back({parameter->offset, parameter->offset + parameter->count,
                              layout.parameter_elements(), rule,
                              IsDecayedOn(training, parameter->spec)});
  }
  for (size_t g = 0; g < used.size(); ++g)
    if (!used[g]) return NothingBelongsTo(training, g, layout);
  for (size_t r = 0; r + 1 < rules.runs_.size(); ++r) rules.runs_[r].end = rules.runs_[r + 1].begin;
  rules.runs_.back().end = layout.parameter_elements();
  return rules;
}

std::vector<UpdateRun> UpdateRules::In(int64_t offset, int64_t count) const {
  std::vector<UpdateRun> found;
  const auto ends_after = [](int64_t at, const UpdateRun& run) { return at < run.end; };
  auto run = std::upper_bound(runs_.begin(), runs_.end(), offset, ends_after);
  for (; run != runs_.end() && run->begin < offset + count; ++run)
    found.push_back({std::max(run->begin, offset), std::min(run->end, offset + count), run->rule});
  MUSTER_CHECK(count == 0 || (!found.empty() && found.back().end == offset + count),
               "only parameters are updated by rules");
  return found;
}

void UpdateRules::ZeroFrozen(int64_t offset, absl::Span<float> values) const {
  if (!any_frozen_) return;
  for (const UpdateRun& run : In(offset, static_cast<int64_t>(values.size()))) {
    if (!run.rule.frozen) continue;
    const auto begin = values.begin() + (run.begin - offset);
    std::fill(begin, begin + (run.end - run.begin), 0.0f);
  }
}

// Goes back to the last star alone: an earlier one could only take less.
bool MatchesPattern(absl::string_view pattern, absl::string_view text) {
  size_t p = 0, t = 0;
  std::optional<size_t> star;
  size_t star_ends = 0;  // in the text
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_ends = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star) {
      p = *star + 1;
      t = ++star_ends;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

}  // namespace muster
