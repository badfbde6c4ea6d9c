// CRC32C (Castagnoli, RFC 3720), the checksum of chunks on the wire and on disk; and the CRC-32 of
// zip files. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "lib/kernels/add.h"

namespace muster {

// To go on where another call ended, pass its result as seed: Crc32c(b, Crc32c(a)) is the checksum
// of a and b joined.
uint32_t Crc32c(absl::Span<const std::byte> bytes, uint32_t seed = 0);

// That of zip and gzip (RFC 1952); it goes on likewise.
uint32_t Crc32OfZip(absl::Span<const std::byte> bytes, uint32_t seed = 0);

// Of `size` bytes from byte_offset of all slices joined; the slices must reach that far.
uint32_t Crc32cOfSlices(ByteSlices slices, size_t byte_offset, size_t size, uint32_t seed = 0);

}  // namespace muster
