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

void CopyFloats(absl::Span<const float> from, absl::Span<float> to, CopyCounter& counter) {
  MUSTER_CHECK(from.size() == to.size());
  if (from.empty()) return;
  std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
  counter += from.size() * sizeof(float);
}

}  // namespace muster
