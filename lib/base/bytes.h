#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// A view of the same memory, for checksums, files and frames.
inline absl::Span<const std::byte> BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

inline absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace muster
