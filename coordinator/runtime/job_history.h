// The history of a job as readers get it: what the ledger gives and the control API shares. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/domain/history.h"
#include "lib/domain/plugin_use.h"

namespace muster {

struct HistoryQuery {
  int64_t from = 0;     // this step and later ones
  int64_t lineage = 0;  // of the step before `from`, as the asker has it; 0: it has none
  int64_t limit = 0;    // most steps, up to kMostHistorySteps; 0: kHistoryStepsPerPage
};
inline constexpr int64_t kHistoryStepsPerPage = 1'000;
inline constexpr int64_t kMostHistorySteps = 10'000;

// Where a rewind has left out steps below `from` that the asker has, it begins with the first of
// them.
struct HistoryPage {
  std::vector<HistoryStep> steps;
  std::optional<int64_t> next;       // the step from which those follow; nothing: there are none
  std::vector<PluginUse> plugins{};  // which file computed; empty: a task that is part of Muster
};

}  // namespace muster
