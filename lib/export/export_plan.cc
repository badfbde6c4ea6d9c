#include "lib/export/export_plan.h"

namespace muster {

std::vector<ExportItem> PlanExport(const Layout& layout, int32_t slots) {
  std::vector<ExportItem> items;
  for (int32_t slot = 0; slot <= slots; ++slot)
    for (const Placed& tensor : layout.tensors())
      if (slot == 0 || tensor.spec.kind == TensorKind::kParameter) items.push_back({&tensor, slot});
  return items;
}

std::vector<std::string> SlotNames(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return {};
    case OptimizerKind::kMomentum: return {"momentum_buffer"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW: return {"exp_avg", "exp_avg_sq"};
  }
  return {};
}

}  // namespace muster
