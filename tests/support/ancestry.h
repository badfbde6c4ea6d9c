// The history of a state from records that are all in memory: the plain twin of HistoryOf, which
// the program reads its ledger by.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/domain/ledger.h"

namespace muster {

// The records that made state(end) of `last`, in step order: one per step, from the lineage that
// owns that step. kDataLoss names the first step without a record.
inline absl::StatusOr<std::vector<StepRecord>> Ancestry(const std::vector<Lineage>& lineages,
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
