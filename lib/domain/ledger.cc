#include "lib/domain/ledger.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "lib/base/status.h"

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

absl::StatusOr<std::vector<StepRecord>> Ancestry(const std::vector<Lineage>& lineages,
                                                 const std::vector<StepRecord>& records,
                                                 LineageNumber last, Step end) {
  std::map<LineageNumber, Lineage> by_number;
  for (const Lineage& l : lineages) by_number[l.number] = l;
  std::map<std::pair<LineageNumber, Step>, const StepRecord*> by_step;
  for (const StepRecord& r : records) by_step.emplace(std::pair(r.lineage, r.step), &r);
  std::vector<StepRecord> found;
  Step before = end;
  for (LineageNumber at = last; before > Step(0);) {
    const auto it = by_number.find(at);
    if (it == by_number.end())
      return absl::DataLossError(absl::StrCat("lineage ", at.value(), " is not in the journal"));
    for (Step s = before - 1; s >= it->second.fork; s = s - 1) {
      const auto record = by_step.find({at, s});
      if (record == by_step.end())
        return absl::DataLossError(
            absl::StrCat("step ", s.value(), " of lineage ", at.value(), " has no record"));
      found.push_back(*record->second);
    }
    before = std::min(before, it->second.fork);
    if (before > Step(0) && it->second.parent == LineageNumber(0))
      return absl::DataLossError(absl::StrCat("step ", before.value() - 1, " is on no lineage"));
    at = it->second.parent;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace muster
