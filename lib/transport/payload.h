// Bytes that ride beside a header. A payload points at memory; it never owns a copy of tensor
// bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace muster {

struct Payload {
  std::vector<absl::Span<const std::byte>> slices;  // in order; cut at any byte; some may be empty
  // The slices stay readable and unchanged while a copy of this lives (null: for ever). The last
  // copy may be released on any thread of the transport, also while it works: a deleter is quick,
  // takes no lock that is held while calling the transport, and does not call the transport.
  std::shared_ptr<const void> keep;

  size_t size() const {
    size_t n = 0;
    for (const auto& s : slices) n += s.size();
    return n;
  }
};

}  // namespace muster
