#include "lib/domain/plugin_use.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Lineages after that of the change began after it: what they did again, they did with that file.
Step EffectiveStep(const PluginChange& change, const std::vector<LineagePart>& history) {
  Step step = change.step;
  for (const LineagePart& part : history)
    if (part.lineage > change.lineage) step = std::min(step, part.first);
  return step;
}

}  // namespace

std::vector<PluginUse> PluginUses(const std::string& first, Step first_step,
                                  const std::vector<PluginChange>& changes,
                                  const std::vector<Lineage>& lineages) {
  if (first.empty()) return {};
  std::vector<PluginUse> uses = {{first_step.value(), first, std::nullopt}};
  const std::vector<LineagePart> history = HistoryOf(lineages);
  for (const PluginChange& change : changes) {
    const int64_t from = std::max(first_step, EffectiveStep(change, history)).value();
    while (!uses.empty() && uses.back().from >= from) uses.pop_back();
    if (uses.empty() || uses.back().file != change.after)
      uses.push_back({from, change.after, change.by});
  }
  return uses;
}

std::vector<std::string> DescribeChanges(const std::vector<PluginUse>& uses) {
  std::vector<std::string> sentences;
  for (size_t i = 0; i < uses.size(); ++i) {
    const PluginUse& use = uses[i];
    if (!use.accepted_by) continue;
    const std::string who =
        use.accepted_by->empty() ? "a person" : absl::StrCat("user ", *use.accepted_by);
    sentences.push_back(absl::StrCat("from step ", use.from, " on ", use.file, " computes",
                                     i > 0 ? absl::StrCat(" in place of ", uses[i - 1].file) : "",
                                     ", which ", who, " accepted"));
  }
  return sentences;
}

}  // namespace muster
