// The values of a step's history that make curves, each with its name, which all that show curves
// use. Plain values.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/domain/history.h"

namespace muster {

struct HistorySeries {
  const char* name;
  std::optional<double> (*of)(const HistoryStep&);
};

// The loss is the first one.
absl::Span<const HistorySeries> AllHistorySeries();

// Null: no series is called so.
const HistorySeries* FindHistorySeries(absl::string_view name);

}  // namespace muster
