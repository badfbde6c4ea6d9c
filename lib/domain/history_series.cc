#include "lib/domain/history_series.h"

namespace muster {
namespace {

constexpr HistorySeries kSeries[] = {
    {"loss", [](const HistoryStep& step) { return step.loss; }},
    {"learning_rate", [](const HistoryStep& step) { return step.learning_rate; }},
    {"gradient_norm", [](const HistoryStep& step) { return step.gradient_norm; }},
    {"samples_per_second", [](const HistoryStep& step) { return step.samples_per_second; }},
};

}  // namespace

absl::Span<const HistorySeries> AllHistorySeries() { return kSeries; }

const HistorySeries* FindHistorySeries(absl::string_view name) {
  for (const HistorySeries& series : kSeries)
    if (name == series.name) return &series;
  return nullptr;
}

}  // namespace muster
