#include "lib/kernels/crc.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "lib/base/check.h"

namespace muster {

uint32_t Crc32c(absl::Span<const std::byte> bytes, uint32_t seed) {
  constexpr size_t kMaxPiece = size_t{1} << 30;  // the library counts in int
  uint32_t state = ~seed;
  while (!bytes.empty()) {
    const auto piece = bytes.subspan(0, kMaxPiece);
    // The library reads only; its parameter just lacks a const.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes.remove_prefix(piece.size());
  }
  return ~state;
}

uint32_t Crc32OfZip(absl::Span<const std::byte> bytes, uint32_t seed) {
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t Crc32cOfSlices(ByteSlices slices, size_t byte_offset, size_t size, uint32_t seed) {
  uint32_t crc = seed;
  for (absl::Span<const std::byte> slice : slices) {
    const size_t skipped = std::min(byte_offset, slice.size());
    byte_offset -= skipped;
    const auto part = slice.subspan(skipped, size);
    crc = Crc32c(part, crc);
    size -= part.size();
  }
  MUSTER_CHECK(size == 0, "the slices end before the last byte");
  return crc;
}

}  // namespace muster
