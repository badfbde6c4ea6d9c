// Bytes that ride beside a header. A payload points at memory; it never owns a copy of tensor bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace muster {

struct Payload {
  std::vector<absl::Span<const std::byte>> slices;  // in order; cut at any byte
  std::shared_ptr<const void> keep;  // the slices stay readable while a copy of this lives (may be null: static memory)

  size_t size() const {
    size_t n = 0;
    for (const auto& s : slices) n += s.size();
    return n;
  }
};

}  // namespace muster
