#include "lib/domain/ledger.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"

namespace muster {

std::string ToHex(const FingerprintPart& part) {
  return absl::StrFormat("%016x%016x", part.hi, part.lo);
}

std::optional<double> MeanLoss(const StepRecord& record) {
  if (record.weight <= 0) return std::nullopt;
  return record.loss / static_cast<double>(record.weight);
}

std::vector<LineagePart> HistoryOf(const std::vector<Lineage>& lineages) {
  if (lineages.empty()) return {};
  std::vector<LineagePart> parts;
  Step end(std::numeric_limits<int64_t>::max());
  LineageNumber at = lineages.back().number;
  // A parent is older than its child.
  for (auto l = lineages.rbegin(); l != lineages.rend(); ++l) {
    if (l->number != at) continue;
    if (l->fork < end) parts.push_back({at, l->fork, end});
    end = std::min(end, l->fork);
    at = l->parent;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Step ContinueAt(const std::vector<LineagePart>& history, LineageNumber held, Step next) {
  if (held == LineageNumber(0)) return next;
  for (const LineagePart& part : history)
    if (part.lineage > held) return std::min(next, part.first);
  return next;
}

}  // namespace muster
