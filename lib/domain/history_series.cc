#include "lib/domain/history_series.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr char kValidation[] = "validation.";

struct Series {
  const char* name;
  std::optional<double> HistoryStep::*value;
};
constexpr Series kSeries[] = {{"loss", &HistoryStep::loss},
                              {"learning_rate", &HistoryStep::learning_rate},
                              {"gradient_norm", &HistoryStep::gradient_norm},
                              {"samples_per_second", &HistoryStep::samples_per_second}};

const Series* Find(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kSeries), std::end(kSeries),
                                         [&](const Series& s) { return name == s.name; });
  return found == std::end(kSeries) ? nullptr : found;
}

}  // namespace

std::vector<std::string> HistorySeriesNames() {
  std::vector<std::string> names;
  for (const Series& series : kSeries) names.emplace_back(series.name);
  return names;
}

bool IsHistorySeries(absl::string_view name) {
  return Find(name) != nullptr || (absl::ConsumePrefix(&name, kValidation) && !name.empty());
}

std::optional<double> ValueOf(const HistoryStep& step, absl::string_view series) {
  if (const Series* found = Find(series)) return step.*(found->value);
  if (!absl::ConsumePrefix(&series, kValidation)) return std::nullopt;
  for (const MetricValue& measured : step.validation)
    if (measured.metric == series) return measured.value;
  return std::nullopt;
}

std::vector<std::pair<std::string, double>> ValuesOf(const HistoryStep& step) {
  std::vector<std::pair<std::string, double>> values;
  for (const Series& series : kSeries)
    if (const std::optional<double> value = step.*(series.value))
      values.emplace_back(series.name, *value);
  for (const MetricValue& measured : step.validation)
    if (measured.value)
      values.emplace_back(absl::StrCat(kValidation, measured.metric), *measured.value);
  return values;
}

}  // namespace muster
