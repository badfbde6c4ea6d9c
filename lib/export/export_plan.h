// Which tensors an export has, and under which names. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"
#include "lib/domain/update_rules.h"

namespace muster {

struct ExportItem {
  const Placed* tensor = nullptr;
  int32_t slot = 0;  // 0: the value; then those of the optimizer, and the moving average
  std::string name;  // one of the tensor's
};

// All values in registration order, then so many slots, of all parameters in that order each. Each
// tensor once, under its first name.
std::vector<ExportItem> PlanExport(const Layout& layout, int32_t slots);

// Behind each item another one for each further name of its tensor. But for slots of the optimizer,
// which knows a parameter once: `average` is the slot of the moving average, or 0.
std::vector<ExportItem> UnderEachName(const std::vector<ExportItem>& items, int32_t average);

// What torch.optim calls the slots of this optimizer, in the order of ours: "exp_avg" and
// "exp_avg_sq".
std::vector<std::string> SlotNames(OptimizerKind kind);

// Parameters that are updated by one rule, by their numbers among all parameters in registration
// order: what torch.optim calls a group.
struct ExportedGroup {
  UpdateRule rule;
  std::vector<int64_t> parameters;
};
// In the order of their first parameters. Errors are UpdateRules::Make's.
absl::StatusOr<std::vector<ExportedGroup>> GroupsOf(const TrainingSpec& training,
                                                    const Layout& layout);

}  // namespace muster
