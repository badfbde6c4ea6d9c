#include "lib/data/zip.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/data/checksum.h"
#include "lib/data/held_files.h"
#include "lib/data/inflate.h"
#include "lib/data/numbers_in_bytes.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

constexpr uint32_t kEndMark = 0x06054b50, kEnd64LocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                   kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46,
                   kLocalBytes = 30, kMostComment = 65535;
constexpr uint64_t kMostDirectoryBytes = uint64_t{16} << 20;
constexpr uint64_t kSmallBytes = uint64_t{1} << 20;
constexpr uint16_t kIsEncrypted = 1, kZip64Field = 1;
constexpr uint32_t kIn64 = 0xffffffff;

struct Directory {
  uint64_t at = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

absl::StatusOr<std::vector<std::byte>> ReadPiece(const ByteSource& zip, uint64_t at,
                                                 uint64_t bytes) {
  if (at > zip.size() || bytes > zip.size() - at)
    return BadAt(zip, std::min(at, zip.size()), "its directory leads to what is not there");
  std::vector<std::byte> piece(static_cast<size_t>(bytes));
  MUSTER_RETURN_IF_ERROR(zip.ReadAt(at, absl::MakeSpan(piece)));
  return piece;
}

// The record of the same in 64 bits, which stands where the other has no room for its numbers.
absl::StatusOr<Directory> FindDirectory64(const ByteSource& zip, uint64_t end) {
  if (end < kLocatorBytes) return BadAt(zip, end, "the record of zip64 is missing");
  MUSTER_ASSIGN_OR_RETURN(const auto locator, ReadPiece(zip, end - kLocatorBytes, kLocatorBytes));
  if (LittleEndian<uint32_t>(locator.data()) != kEnd64LocatorMark)
    return BadAt(zip, end - kLocatorBytes, "the record of zip64 is missing");
  const auto at = LittleEndian<uint64_t>(locator.data() + 8);
  MUSTER_ASSIGN_OR_RETURN(const auto record, ReadPiece(zip, at, kEnd64Bytes));
  if (LittleEndian<uint32_t>(record.data()) != kEnd64Mark)
    return BadAt(zip, at, "the record of zip64 is missing");
  return Directory{LittleEndian<uint64_t>(record.data() + 48),
                   LittleEndian<uint64_t>(record.data() + 40),
                   LittleEndian<uint64_t>(record.data() + 32)};
}

absl::StatusOr<Directory> FindDirectory(const ByteSource& zip) {
  if (zip.size() < kEndBytes) return BadAt(zip, zip.size(), "it is too short for a zip file");
  const uint64_t tail = std::min(zip.size(), kEndBytes + kMostComment);
  MUSTER_ASSIGN_OR_RETURN(const auto bytes, ReadPiece(zip, zip.size() - tail, tail));
  for (uint64_t at = tail - kEndBytes + 1; at-- > 0;) {
    const std::byte* record = bytes.data() + at;
    if (LittleEndian<uint32_t>(record) != kEndMark) continue;
    const Directory found{LittleEndian<uint32_t>(record + 16), LittleEndian<uint32_t>(record + 12),
                          LittleEndian<uint16_t>(record + 10)};
    if (found.at != kIn64 && found.bytes != kIn64) return found;
    return FindDirectory64(zip, zip.size() - tail + at);
  }
  return BadAt(zip, zip.size(), "it has no directory of a zip file; it may be cut off");
}

// Where more entries than the record has room for are not told of in zip64, it has the most that
// fits, or what is left of their number in 16 bits.
bool IsCount(uint64_t told, uint64_t entries) {
  constexpr uint64_t kMost = 0xffff;
  return told == entries || (entries >= kMost && (told == kMost || told == (entries & kMost)));
}

// Numbers that have no room in an entry stand in its extra field, in this order.
absl::Status TakeZip64(const ByteSource& zip, absl::Span<const std::byte> extra,
                       std::initializer_list<uint64_t*> numbers) {
  while (extra.size() >= 4) {
    const auto id = LittleEndian<uint16_t>(extra.data());
    const size_t bytes = LittleEndian<uint16_t>(extra.data() + 2);
    extra.remove_prefix(4);
    if (bytes > extra.size()) break;
    absl::Span<const std::byte> field = extra.first(bytes);
    extra.remove_prefix(bytes);
    if (id != kZip64Field) continue;
    for (uint64_t* number : numbers) {
      if (*number != kIn64) continue;
      if (field.size() < 8)
        return Bad(zip, "an entry of its directory has a broken field of zip64");
      *number = LittleEndian<uint64_t>(field.data());
      field.remove_prefix(8);
    }
    return absl::OkStatus();
  }
  const bool missing = std::any_of(numbers.begin(), numbers.end(),
                                   [](const uint64_t* number) { return *number == kIn64; });
  return missing ? Bad(zip, "an entry of its directory has no field of zip64") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZip(const ByteSource& zip) {
  MUSTER_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(zip));
  if (directory.bytes > kMostDirectoryBytes)
    return BadAt(zip, directory.at,
                 absl::StrCat("its directory has ", directory.bytes, " bytes; at most ",
                              kMostDirectoryBytes, " are allowed"));
  MUSTER_ASSIGN_OR_RETURN(const auto bytes, ReadPiece(zip, directory.at, directory.bytes));
  std::vector<ZipMember> members;
  for (size_t at = 0; at < bytes.size();) {
    const absl::Span<const std::byte> left = absl::MakeConstSpan(bytes).subspan(at);
    if (left.size() < kEntryBytes || LittleEndian<uint32_t>(left.data()) != kEntryMark)
      return BadAt(zip, directory.at + at, "an entry of its directory is broken");
    const size_t name = LittleEndian<uint16_t>(left.data() + 28),
                 extra = LittleEndian<uint16_t>(left.data() + 30),
                 comment = LittleEndian<uint16_t>(left.data() + 32);
    if (left.size() - kEntryBytes < name + extra + comment)
      return BadAt(zip, directory.at + at, "an entry of its directory is broken");
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(left.data() + kEntryBytes), name);
    member.crc = LittleEndian<uint32_t>(left.data() + 16);
    member.packed_bytes = LittleEndian<uint32_t>(left.data() + 20);
    member.bytes = LittleEndian<uint32_t>(left.data() + 24);
    member.local_header = LittleEndian<uint32_t>(left.data() + 42);
    MUSTER_RETURN_IF_ERROR(TakeZip64(zip, left.subspan(kEntryBytes + name, extra),
                                     {&member.bytes, &member.packed_bytes, &member.local_header}));
    const auto method = LittleEndian<uint16_t>(left.data() + 10);
    if ((LittleEndian<uint16_t>(left.data() + 8) & kIsEncrypted) != 0)
      return Bad(zip, absl::StrCat("'", member.name, "' in it is encrypted"));
    if (method != 0 && method != 8)
      return Bad(zip, absl::StrCat("'", member.name, "' in it is packed by method ", method,
                                   "; stored and deflated ones can be read"));
    member.deflated = method == 8;
    members.push_back(std::move(member));
    at += kEntryBytes + name + extra + comment;
  }
  if (!IsCount(directory.entries, members.size()))
    return BadAt(zip, directory.at,
                 absl::StrCat("its directory has ", members.size(), " entries, and its end tells ",
                              "of ", directory.entries, "; the file is broken"));
  return members;
}

absl::StatusOr<SourcePtr> OpenMember(const SourcePtr& zip, const ZipMember& member) {
  const std::string name = absl::StrCat(zip->name(), " (", member.name, ")");
  MUSTER_ASSIGN_OR_RETURN(const auto header, ReadPiece(*zip, member.local_header, kLocalBytes));
  if (LittleEndian<uint32_t>(header.data()) != kLocalMark)
    return BadAt(*zip, member.local_header,
                 absl::StrCat("'", member.name, "' does not begin here"));
  const uint64_t begin = member.local_header + kLocalBytes +
                         LittleEndian<uint16_t>(header.data() + 26) +
                         LittleEndian<uint16_t>(header.data() + 28);
  if (begin > zip->size() || member.packed_bytes > zip->size() - begin)
    return BadAt(*zip, zip->size(), absl::StrCat("'", member.name, "' ends behind the file"));
  SourcePtr stored =
      PartOf(zip, name, begin, member.packed_bytes, member.deflated ? std::nullopt : member.crc);
  if (!member.deflated) {
    if (member.bytes != member.packed_bytes) return Bad(*stored, "it is stored, and has two sizes");
    if (member.bytes <= kSmallBytes) MUSTER_RETURN_IF_ERROR(CheckChecksum(*stored));
    return stored;
  }
  DataMemory memory;
  if (const absl::Status taken = memory.Take(name, member.bytes); !taken.ok())
    return absl::ResourceExhaustedError(absl::StrCat(taken.message(), "; save it without packing"));
  absl::StatusOr<std::string> unpacked = Inflate(*stored, Packing::kRawDeflate, member.bytes);
  if (absl::IsResourceExhausted(unpacked.status()))
    return Bad(*stored, "unpacked it is larger than the zip file says");
  MUSTER_ASSIGN_OR_RETURN(std::string bytes, std::move(unpacked));
  if (bytes.size() != member.bytes || (member.crc && Crc32OfZip(BytesOf(bytes)) != *member.crc))
    return ChecksumDiffers(*stored);
  return HeldSource(name, std::move(bytes), CheckInTurn({zip}), std::move(memory));
}

}  // namespace muster
