// The files of a spool, where a stream's samples lie until no checkpoint needs them
// (docs/decisions/0112-streams.md). A segment is called NUMBER-INCARNATION.spool, by at least eight
// decimal and 32 hexadecimal digits, so that no process appends to another's. All numbers in it are
// little-endian:
//
//   offset   bytes  field
//   0        8      magic MSTRSPL1
//   8        4      form, 1
//   12       4      CRC32C of the head, this field taken as zero
//   16       8      position of the first sample
//   24       8      bytes of a sample, S
//   32       16     incarnation of the writer, its first half first
//   48       8      number of the segment
//   56       8      zero
//   64       S + 4  each sample: its bytes, and the CRC32C of its position (8 bytes) and these
//
// How many samples are in it no file says: facts do. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/stream.h"

namespace muster {

struct SpoolFileName {
  int64_t number = 0;
  Incarnation writer;
  bool operator==(const SpoolFileName&) const = default;
};
std::string NameOf(const SpoolFileName& file);
// Nothing: NameOf gives no such name.
std::optional<SpoolFileName> SpoolFileNamed(absl::string_view name);

using SpoolHead = std::array<std::byte, kSpoolHeadBytes>;
SpoolHead MakeSpoolHead(const SpoolFileName& file, uint64_t first, uint64_t sample_bytes);

// kDataLoss: it is no head, or that of another segment than `fact`, or of other samples. The
// message begins with `path`, and says where.
absl::Status CheckSpoolHead(absl::string_view path, const SpoolHead& head, const SpoolSegment& fact,
                            uint64_t sample_bytes);

// Where a sample stands, counted from the first of its file.
inline uint64_t OffsetInSpool(uint64_t sample, uint64_t sample_bytes) {
  return SpoolFileBytes(sample, sample_bytes);
}

// What stands behind a sample.
uint32_t SpoolChecksum(uint64_t position, absl::Span<const std::byte> sample);

// `stored` holds whole samples as they stand in a file, the first being that of `position`; their
// bytes go to `into`, which has room for as many. kDataLoss: a checksum is wrong; the message
// begins with `path`, and says at which byte, `offset` being that of `stored`.
absl::Status TakeSpooled(absl::string_view path, uint64_t offset, uint64_t position,
                         uint64_t sample_bytes, absl::Span<const std::byte> stored,
                         absl::Span<std::byte> into);

}  // namespace muster
