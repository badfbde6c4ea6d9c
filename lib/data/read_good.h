// Reads the samples that can be read, and tells which others there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "muster/data_set.h"

namespace muster {

// As set.ReadInto, but a sample that is bad (IsBadSample) is no error: returns the positions in
// `ids` of those, ascending; nothing is said about their rows.
absl::StatusOr<std::vector<uint32_t>> ReadGood(const DataSet& set, int64_t epoch,
                                               absl::Span<const uint64_t> ids, Batch& batch,
                                               size_t first);

}  // namespace muster
