#include "lib/wire/tensor_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/base/check.h"

namespace muster {

static_assert(std::endian::native == std::endian::little, "values travel as they lie in memory");

void CopySlices(ByteSlices from, size_t byte_offset, absl::Span<float> to, CopyCounter& counter) {
  std::byte* out = reinterpret_cast<std::byte*>(to.data());
  const size_t wanted = to.size() * sizeof(float);
  size_t left = wanted, skip = byte_offset;
  for (const absl::Span<const std::byte>& slice : from) {
    if (left == 0) break;
    if (skip >= slice.size()) {
      skip -= slice.size();
      continue;
    }
    const size_t n = std::min(left, slice.size() - skip);
    std::memcpy(out, slice.data() + skip, n);
    out += n;
    left -= n;
    skip = 0;
  }
  MUSTER_CHECK(left == 0, "the slices end before the values do");
  counter += wanted;
}

namespace {

bool IsPlaceOf(size_t bytes, size_t floats) {
  return floats == (bytes + sizeof(float) - 1) / sizeof(float);
}

}  // namespace

void CopyBytesIn(absl::Span<const std::byte> from, absl::Span<float> to, CopyCounter& counter) {
  MUSTER_CHECK(IsPlaceOf(from.size(), to.size()));
  if (from.empty()) return;
  to.back() = 0;
  std::memcpy(to.data(), from.data(), from.size());
  counter += from.size();
}

void CopyBytesOut(absl::Span<const float> from, absl::Span<std::byte> to, CopyCounter& counter) {
  MUSTER_CHECK(IsPlaceOf(to.size(), from.size()));
  if (to.empty()) return;
  std::memcpy(to.data(), from.data(), to.size());
  counter += to.size();
}

void CopyFloats(absl::Span<const float> from, absl::Span<float> to, CopyCounter& counter) {
  MUSTER_CHECK(from.size() == to.size());
  if (from.empty()) return;
  std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
  counter += from.size() * sizeof(float);
}

}  // namespace muster
