#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace muster {

// A view of the same memory, for checksums, files and frames.
inline absl::Span<const std::byte> BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace muster
