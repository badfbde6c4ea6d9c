// What a journal holds of a job's steps.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/journal.h"

namespace muster::coordinator {

// Of the lineages that tests make, also of those that no history names.
inline absl::StatusOr<std::vector<RecordedStep>> RecordedSteps(const Journal& journal,
                                                               const std::string& job) {
  const Step end(std::numeric_limits<int64_t>::max());
  std::vector<LineagePart> all;
  for (int64_t lineage = 0; lineage < 10; ++lineage)
    all.push_back({LineageNumber(lineage), Step(0), end});
  return journal.RecordsIn(job, all, Step(0), end, std::numeric_limits<size_t>::max());
}

}  // namespace muster::coordinator
