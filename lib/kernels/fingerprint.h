// The fingerprint of a model state (docs/protocol.md section 8): a sum over all elements of a hash
// of (tensor name, slot, index, bits). A sum, so it is computed in parts over any layout, in any
// order, by anybody; a hash of the place too, so two values that change places are seen. It detects
// accidents; against a forger use the digest.
//
// Two 64-bit sums, each modulo 2^64. With k = Mix64(name_hash, slot) and bits b of the value at
// index i of its tensor:
//   lo = Σ Mix64((k + i·0x9e3779b97f4a7c15) ^ b)
//   hi = Σ Mix64((Mix64(k, 1) + i·0xd1342543de82ef95) ^ (b << 32))
// The definition is part of the ledger's format: it never changes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace muster {

struct Fingerprint {
  uint64_t hi = 0;
  uint64_t lo = 0;

  Fingerprint& operator+=(const Fingerprint& other) {
    hi += other.hi;
    lo += other.lo;
    return *this;
  }
  friend Fingerprint operator+(Fingerprint a, const Fingerprint& b) { return a += b; }
  bool operator==(const Fingerprint&) const = default;
};

std::string ToHex(const Fingerprint& fingerprint);  // 32 digits, hi first

// Of a run of one tensor's values. `name_hash`: HashBytes of the tensor's name. `slot`: 0 the
// parameter or buffer itself, 1 + s the optimizer's slot s. `first_index`: of values[0] within the
// tensor. Any thread.
Fingerprint FingerprintOf(uint64_t name_hash, uint32_t slot, uint64_t first_index,
                          absl::Span<const float> values);

}  // namespace muster
