// The values of a step's history that make curves, each with its name, which all that show curves
// use. Plain values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/domain/history.h"

namespace muster {

// The names of those that every job has: the loss is the first one. Beside them there is
// validation.NAME for each metric that a job measures.
std::vector<std::string> HistorySeriesNames();
bool IsHistorySeries(absl::string_view name);

// Nothing: the step has no such value.
std::optional<double> ValueOf(const HistoryStep& step, absl::string_view series);

// All that the step has, in the order of the names.
std::vector<std::pair<std::string, double>> ValuesOf(const HistoryStep& step);

}  // namespace muster
