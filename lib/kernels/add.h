// Sums of fp32 spans and of received bytes. Element i is one IEEE addition, left operand first,
// whatever the SIMD width: the bits depend on the values and on nothing else. Pure functions on the
// caller's memory; any thread; no allocation. Sizes that do not fit together are our own bug and
// abort.
#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace muster {

using ByteSlices = absl::Span<const absl::Span<const std::byte>>;  // in order, read as one run

// out[i] = a[i] + b[i]. Equal sizes; `out` may be `a` or `b`, but not overlap one of them shifted.
void Add(absl::Span<const float> a, absl::Span<const float> b, absl::Span<float> out);

// The functions below read little-endian fp32 values straight from received slices, which may be
// cut at any byte and lie at any address: value i stands at bytes byte_offset + 4·i … of all slices
// joined. The slices must reach that far (check the size of a message before adding from it).

// out[i] = a[i] + b[i], with `a` in slices. Equal sizes of `b` and `out`, which may be the same
// memory.
void SumSlices(ByteSlices a, size_t byte_offset, absl::Span<const float> b, absl::Span<float> out);

// out[i] = a[i] + b[i], with both in slices: the first sum of an owner, into memory of its own.
void SumTwoSlices(ByteSlices a, size_t a_offset, ByteSlices b, size_t b_offset,
                  absl::Span<float> out);

}  // namespace muster
