// Which tensors an export has, and under which names. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/domain/job.h"
#include "lib/domain/layout.h"

namespace muster {

struct ExportItem {
  const Placed* tensor = nullptr;
  int32_t slot = 0;  // 0: the value; then those of the optimizer
};

// All values in registration order, then so many slots, of all parameters in that order each.
std::vector<ExportItem> PlanExport(const Layout& layout, int32_t slots);

// What torch.optim calls the slots of this optimizer, in the order of ours: "exp_avg" and
// "exp_avg_sq".
std::vector<std::string> SlotNames(OptimizerKind kind);

}  // namespace muster
