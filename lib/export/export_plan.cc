#include "lib/export/export_plan.h"

#include <algorithm>

#include "lib/base/status.h"

namespace muster {

std::vector<ExportItem> PlanExport(const Layout& layout, int32_t slots) {
  std::vector<ExportItem> items;
  for (int32_t slot = 0; slot <= slots; ++slot)
    for (const Placed& tensor : layout.tensors())
      if (tensor.spec.kind == TensorKind::kParameter ||
          (slot == 0 && tensor.spec.kind == TensorKind::kBuffer))
        items.push_back({&tensor, slot, tensor.spec.name});
  return items;
}

std::vector<ExportItem> UnderEachName(const std::vector<ExportItem>& items, int32_t average) {
  std::vector<ExportItem> named;
  for (const ExportItem& item : items) {
    named.push_back(item);
    if (item.slot != 0 && item.slot != average) continue;
    for (const std::string& alias : item.tensor->spec.aliases)
      named.push_back({item.tensor, item.slot, alias});
  }
  return named;
}

std::vector<std::string> SlotNames(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kLars: return {"momentum_buffer"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kLamb: return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::kRmsprop: return {"square_avg"};
    case OptimizerKind::kAdagrad: return {"sum"};
  }
  return {};
}

absl::StatusOr<std::vector<ExportedGroup>> GroupsOf(const TrainingSpec& training,
                                                    const Layout& layout) {
  MUSTER_ASSIGN_OR_RETURN(const UpdateRules rules, UpdateRules::Make(training, layout));
  std::vector<ExportedGroup> groups;
  int64_t number = 0;
  for (const Placed& tensor : layout.tensors()) {
    if (tensor.spec.kind != TensorKind::kParameter) continue;
    const UpdateRule rule = rules.In(tensor.offset, 1)[0].rule;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const ExportedGroup& g) { return g.rule == rule; });
    if (group == groups.end()) group = groups.insert(group, {rule, {}});
    group->parameters.push_back(number++);
  }
  return groups;
}

}  // namespace muster
