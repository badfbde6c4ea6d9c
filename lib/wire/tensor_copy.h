// The one place where tensor bytes are copied on the data path; whatever it copies is counted
// (muster_bytes_copied_total). tests/lint refuses other ways of moving them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "lib/kernels/add.h"

namespace muster {

using CopyCounter = std::atomic<uint64_t>;  // bytes

// Fills `to` with little-endian fp32 values that stand from `byte_offset` on in all slices joined,
// which may be cut at any byte and must reach that far. Any thread.
void CopySlices(ByteSlices from, size_t byte_offset, absl::Span<float> to, CopyCounter& counter);

// Equal sizes, no overlap. Any thread.
void CopyFloats(absl::Span<const float> from, absl::Span<float> to, CopyCounter& counter);

// A tensor of another type into its place in a flat space and out of it, byte for byte. The place
// is as long as the tensor, rounded up to a whole float, whose rest is filled with zeros. Any
// thread.
void CopyBytesIn(absl::Span<const std::byte> from, absl::Span<float> to, CopyCounter& counter);
void CopyBytesOut(absl::Span<const float> from, absl::Span<std::byte> to, CopyCounter& counter);

}  // namespace muster
