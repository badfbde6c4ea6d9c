#include "lib/checkpoint/segment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "lib/base/bytes.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/domain/layout.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and so must the machine be");

// docs/formats.md. All numbers are little-endian.
constexpr char kMagic[8] = {'M', 'S', 'T', 'R', 'S', 'E', 'G', '1'};
constexpr uint32_t kVersion = 2;
constexpr size_t kHeaderAlign = 64;
constexpr size_t kMaxJobBytes = 1024;
constexpr size_t kMaxClusterBytes = 64;

struct FixedHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc32c;        // of the whole header, this field taken as 0
  uint64_t header_bytes;  // this struct, the job's id, the cluster's, the table, zeros up to a
                          // multiple of kHeaderAlign
  uint64_t file_bytes;
  int64_t lineage;
  int64_t step;
  uint32_t entry_count;
  uint32_t job_bytes;
  uint32_t cluster_bytes;
  uint32_t zero;
};
struct TableRow {
  int32_t slot;
  int32_t chunk;
  uint64_t offset;
  uint64_t bytes;
  uint32_t crc32c;
  uint32_t zero;
};
static_assert(sizeof(FixedHeader) == 64 && sizeof(TableRow) == 32);

constexpr uint64_t kMaxEntryBytes = kMaxChunkBytes;

using AfterPart = std::function<void(size_t bytes)>;

uint64_t HeaderBytes(uint64_t ids_bytes, uint64_t entries) {
  const uint64_t used = sizeof(FixedHeader) + ids_bytes + entries * sizeof(TableRow);
  return (used + kHeaderAlign - 1) / kHeaderAlign * kHeaderAlign;
}

// `header` begins with a FixedHeader.
uint32_t HeaderChecksum(std::string header) {
  std::memset(header.data() + offsetof(FixedHeader, crc32c), 0, sizeof(uint32_t));
  return Crc32c(BytesOf(header));
}

absl::Status CheckParts(const std::string& path, const SegmentMeta& meta,
                        absl::Span<const PartView> parts) {
  if (meta.job.empty() || meta.job.size() > kMaxJobBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "': the job's id must have 1 … ", kMaxJobBytes, " bytes"));
  if (meta.cluster.size() > kMaxClusterBytes)
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "': the cluster's id must have at most ", kMaxClusterBytes, " bytes"));
  std::set<std::pair<int32_t, ChunkId>> seen;
  for (const PartView& part : parts) {
    const std::string where =
        absl::StrCat("'", path, "', slot ", part.slot, ", chunk ", part.chunk.value());
    if (part.slot < 0 || part.slot > kMaxOptimizerSlots || part.chunk.value() < 0)
      return absl::InvalidArgumentError(absl::StrCat(where, ": out of range"));
    if (part.values.empty() || part.values.size() * sizeof(float) > kMaxEntryBytes)
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", part.values.size(), " elements"));
    if (!seen.insert({part.slot, part.chunk}).second)
      return absl::InvalidArgumentError(absl::StrCat(where, ": is given twice"));
  }
  return absl::OkStatus();
}

Segment PlanSegment(const std::string& file, const SegmentMeta& meta,
                    absl::Span<const PartView> parts, const AfterPart& after_part) {
  Segment segment;
  segment.file = file;
  uint64_t at = HeaderBytes(meta.job.size() + meta.cluster.size(), parts.size());
  for (const PartView& part : parts) {
    const auto bytes = BytesOf(part.values);
    segment.entries.push_back({part.slot, part.chunk, at, bytes.size(), Crc32c(bytes)});
    at += bytes.size();
    if (after_part) after_part(bytes.size());
  }
  segment.bytes = at;
  return segment;
}

std::string MakeHeader(const SegmentMeta& meta, Segment& segment) {
  FixedHeader fixed{};
  std::memcpy(fixed.magic, kMagic, sizeof(kMagic));
  fixed.version = kVersion;
  fixed.header_bytes = HeaderBytes(meta.job.size() + meta.cluster.size(), segment.entries.size());
  fixed.file_bytes = segment.bytes;
  fixed.lineage = meta.lineage.value();
  fixed.step = meta.step.value();
  fixed.entry_count = static_cast<uint32_t>(segment.entries.size());
  fixed.job_bytes = static_cast<uint32_t>(meta.job.size());
  fixed.cluster_bytes = static_cast<uint32_t>(meta.cluster.size());
  std::string header(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  header += meta.job;
  header += meta.cluster;
  for (const SegmentEntry& entry : segment.entries) {
    const TableRow row{entry.slot,  entry.chunk.value(), entry.offset_in_file,
                       entry.bytes, entry.crc32c,        0};
    header.append(reinterpret_cast<const char*>(&row), sizeof(row));
  }
  header.resize(fixed.header_bytes, '\0');
  segment.header_crc32c = HeaderChecksum(header);
  std::memcpy(header.data() + offsetof(FixedHeader, crc32c), &segment.header_crc32c,
              sizeof(uint32_t));
  return header;
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("'", path, "': ", what));
}

absl::Status CheckFixed(const std::string& path, const FixedHeader& fixed, uint64_t file_bytes) {
  if (std::memcmp(fixed.magic, kMagic, sizeof(kMagic)) != 0)
    return Damaged(path, "not a segment file");
  if (fixed.version != kVersion)
    return Damaged(path, absl::StrCat("version ", fixed.version, " is not known"));
  if (fixed.file_bytes != file_bytes)
    return Damaged(path,
                   absl::StrCat("the file has ", Plural(static_cast<int64_t>(file_bytes), "byte"),
                                ", its header says ", fixed.file_bytes));
  if (fixed.job_bytes == 0 || fixed.job_bytes > kMaxJobBytes ||
      fixed.cluster_bytes > kMaxClusterBytes || fixed.zero != 0 || fixed.lineage < 0 ||
      fixed.step < 0 || fixed.header_bytes > file_bytes ||
      fixed.header_bytes != HeaderBytes(fixed.job_bytes + fixed.cluster_bytes, fixed.entry_count))
    return Damaged(path, "sizes in the header make no sense");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SegmentEntry>> ParseTable(const std::string& path,
                                                     const FixedHeader& fixed, const char* rows) {
  std::vector<SegmentEntry> entries;
  entries.reserve(fixed.entry_count);
  uint64_t at = fixed.header_bytes;
  for (uint32_t i = 0; i < fixed.entry_count; ++i) {
    TableRow row;
    std::memcpy(&row, rows + size_t{i} * sizeof(row), sizeof(row));
    if (row.slot < 0 || row.slot > kMaxOptimizerSlots || row.chunk < 0 || row.zero != 0 ||
        row.offset != at || row.bytes == 0 || row.bytes % sizeof(float) != 0 ||
        row.bytes > kMaxEntryBytes || row.bytes > fixed.file_bytes - at)
      return Damaged(path, absl::StrCat("row ", i, " of the table makes no sense"));
    entries.push_back({row.slot, ChunkId(row.chunk), row.offset, row.bytes, row.crc32c});
    at += row.bytes;
  }
  if (at != fixed.file_bytes) return Damaged(path, "bytes behind the last entry");
  return entries;
}

// What a file says about itself.
struct SegmentHeader {
  SegmentMeta meta;
  Segment segment;
};

absl::StatusOr<SegmentHeader> ReadHeader(const CheckpointFile& in, const std::string& path,
                                         const std::string& file) {
  const uint64_t file_bytes = in.size();
  FixedHeader fixed;
  if (file_bytes < sizeof(fixed)) return Damaged(path, "too short");
  MUSTER_RETURN_IF_ERROR(in.ReadAt(0, &fixed, sizeof(fixed)));
  MUSTER_RETURN_IF_ERROR(CheckFixed(path, fixed, file_bytes));
  std::string header(fixed.header_bytes, '\0');
  MUSTER_RETURN_IF_ERROR(in.ReadAt(0, header.data(), header.size()));
  if (HeaderChecksum(header) != fixed.crc32c)
    return Damaged(path, "checksum of the header is wrong");
  SegmentHeader out;
  out.meta = {header.substr(sizeof(fixed), fixed.job_bytes), LineageNumber(fixed.lineage),
              Step(fixed.step),
              header.substr(sizeof(fixed) + fixed.job_bytes, fixed.cluster_bytes)};
  out.segment = {file, file_bytes, fixed.crc32c, {}};
  MUSTER_ASSIGN_OR_RETURN(
      out.segment.entries,
      ParseTable(path, fixed,
                 header.data() + sizeof(fixed) + fixed.job_bytes + fixed.cluster_bytes));
  return out;
}

absl::Status WriteContent(Appender& out, const std::string& header,
                          absl::Span<const PartView> parts, const AfterPart& after_part) {
  MUSTER_RETURN_IF_ERROR(out.Append(BytesOf(header)));
  for (const PartView& part : parts) {
    const absl::Span<const std::byte> bytes = BytesOf(part.values);
    MUSTER_RETURN_IF_ERROR(out.Append(bytes));
    if (after_part) after_part(bytes.size());
  }
  return absl::OkStatus();
}

// A manifest leaves out entries that another segment has too, but changes none and keeps their
// order.
bool Describes(const Segment& whole, const Segment& expected) {
  if (whole.file != expected.file || whole.bytes != expected.bytes ||
      whole.header_crc32c != expected.header_crc32c)
    return false;
  auto at = whole.entries.begin();
  for (const SegmentEntry& entry : expected.entries) {
    at = std::find(at, whole.entries.end(), entry);
    if (at == whole.entries.end()) return false;
    ++at;
  }
  return true;
}

bool BelongTogether(const SegmentMeta& a, const SegmentMeta& b) {
  return a.job == b.job && a.lineage == b.lineage && a.step == b.step;
}

}  // namespace

std::string CheckpointFolder(LineageNumber lineage, Step step) {
  return absl::StrCat("lineage-", lineage.value(), "-step-", step.value());
}

std::optional<std::pair<LineageNumber, Step>> PlaceOfFolder(const std::string& name) {
  absl::string_view rest = name;
  const size_t split = rest.find("-step-");
  int64_t lineage = 0;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&rest, "lineage-") || split == absl::string_view::npos)
    return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(8, split - 8), &lineage) ||
      !absl::SimpleAtoi(name.substr(split + 6), &step) || lineage < 0 || step < 0)
    return std::nullopt;
  if (CheckpointFolder(LineageNumber(lineage), Step(step)) != name) return std::nullopt;
  return std::pair(LineageNumber(lineage), Step(step));
}

std::string WriterName(const MemberId& member) {
  constexpr size_t kMostOfName = 128;  // for people; the incarnation alone is unique
  return absl::StrCat(member.name.substr(0, kMostOfName), "-", ToHex(member.incarnation));
}

std::string SegmentFile(LineageNumber lineage, Step step, absl::string_view writer) {
  return absl::StrCat(CheckpointFolder(lineage, step), "/", writer, kSegmentSuffix);
}

absl::StatusOr<Segment> WriteSegment(CheckpointFiles& files, const std::string& file,
                                     const SegmentMeta& meta, absl::Span<const PartView> parts,
                                     const AfterPart& after_part) {
  if (!IsSafeRelativeName(file))
    return absl::InvalidArgumentError(absl::StrCat("'", file, "': not a safe file name"));
  MUSTER_RETURN_IF_ERROR(CheckParts(files.PathOf(file), meta, parts));
  Segment segment = PlanSegment(file, meta, parts, after_part);
  const std::string header = MakeHeader(meta, segment);
  MUSTER_RETURN_IF_ERROR(files.Create(
      file, [&](Appender& out) { return WriteContent(out, header, parts, after_part); }));
  return segment;
}

absl::StatusOr<SegmentMeta> ReadSegmentMeta(const CheckpointFiles& files, const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> in, files.Open(file));
  MUSTER_ASSIGN_OR_RETURN(SegmentHeader header, ReadHeader(*in, files.PathOf(file), file));
  return std::move(header.meta);
}

absl::StatusOr<SegmentReader> SegmentReader::Open(const CheckpointFiles& files,
                                                  const Segment& expected,
                                                  const SegmentMeta& meta) {
  if (!IsSafeRelativeName(expected.file))
    return absl::InvalidArgumentError(absl::StrCat("'", expected.file, "': not a safe file name"));
  std::string path = files.PathOf(expected.file);
  auto in = files.Open(expected.file);
  if (absl::IsNotFound(in.status())) return absl::DataLossError(in.status().message());
  MUSTER_RETURN_IF_ERROR(in.status());
  MUSTER_ASSIGN_OR_RETURN(const SegmentHeader header, ReadHeader(**in, path, expected.file));
  if (!BelongTogether(header.meta, meta))
    return Damaged(path,
                   absl::StrCat("belongs to job '", header.meta.job, "', lineage ",
                                header.meta.lineage.value(), ", step ", header.meta.step.value()));
  if (!Describes(header.segment, expected))
    return Damaged(path, "its table is not the one in the manifest");
  return SegmentReader(*std::move(in), std::move(path));
}

absl::Status SegmentReader::Read(const SegmentEntry& entry, absl::Span<float> values) const {
  const auto where = [&](absl::string_view what) {
    return absl::StrCat("'", path_, "', slot ", entry.slot, ", chunk ", entry.chunk.value(), ": ",
                        what);
  };
  if (values.size() * sizeof(float) != entry.bytes)
    return absl::InvalidArgumentError(
        where(absl::StrCat("room for ", values.size(), " elements is given")));
  const absl::Status read = file_->ReadAt(entry.offset_in_file, values.data(), entry.bytes);
  if (!read.ok()) return absl::Status(read.code(), where(read.message()));
  if (Crc32c(BytesOf(values)) != entry.crc32c)
    return absl::DataLossError(where("checksum is wrong"));
  return absl::OkStatus();
}

}  // namespace muster
