// What is said of samples by every kind of data set. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace muster {

// "(3, 32, 32)".
inline std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

// kInvalidArgument: one of them is no number of a sample.
inline absl::Status CheckIds(absl::Span<const uint64_t> ids, uint64_t samples) {
  for (const uint64_t id : ids)
    if (id >= samples)
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", id, " is asked for, and there are ", samples));
  return absl::OkStatus();
}

}  // namespace muster
