// A segment file of a checkpoint.
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/bytes.h"
#include "lib/checkpoint/segment.h"
#include "lib/kernels/crc.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/number_at.h"
#include "tests/support/memory_files.h"

namespace muster::fuzz {
namespace {

constexpr size_t kMostHeld = size_t{2} << 20;
constexpr size_t kMostHeldPerByte = 16;
// docs/formats.md
constexpr size_t kFixedBytes = 64, kRowBytes = 32, kCrcAt = 12, kHeaderBytesAt = 16,
                 kFileBytesAt = 24, kEntriesAt = 48, kJobBytesAt = 52, kClusterBytesAt = 56;

struct Field {
  const char* name;
  size_t at, bytes;
  bool refused = true, taken = false;  // what must come of it when it is another
};
constexpr Field kHeaderFields[] = {{"magic", 0, 8},
                                   {"version", 8, 4},
                                   {"header crc", kCrcAt, 4},
                                   {"header_bytes", kHeaderBytesAt, 8},
                                   {"file_bytes", kFileBytesAt, 8},
                                   {"lineage", 32, 8, true, true},
                                   {"step", 40, 8, true, true},
                                   {"entries", kEntriesAt, 4},
                                   {"job_bytes", kJobBytesAt, 4},
                                   {"cluster_bytes", kClusterBytesAt, 4},
                                   {"zero of the header", 60, 4}};
constexpr Field kRowFields[] = {
    {"slot", 0, 4, true, true}, {"chunk", 4, 4, true, true},       {"offset", 8, 8},
    {"bytes", 16, 8},           {"entry crc", 24, 4, false, true}, {"zero of a row", 28, 4}};

uint32_t Crc(std::string_view bytes) {
  return Crc32c(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

size_t TableAt(std::string_view bytes) {
  return kFixedBytes + size_t{At<uint32_t>(bytes, kJobBytesAt)} +
         At<uint32_t>(bytes, kClusterBytesAt);
}

void MakeHeaderCrcRight(std::string& bytes) {
  const auto header = At<uint64_t>(bytes, kHeaderBytesAt);
  Put<uint32_t>(bytes, kCrcAt, 0);
  if (header <= bytes.size()) Put<uint32_t>(bytes, kCrcAt, Crc(bytes.substr(0, header)));
}

// The checksums of a file made right, as far as its sizes lead somewhere.
void MakeRight(std::string& bytes) {
  if (bytes.size() < kFixedBytes) return;
  Put<uint64_t>(bytes, kFileBytesAt, bytes.size());
  const size_t table = TableAt(bytes);
  for (size_t row = table; row + kRowBytes <= bytes.size() &&
                           row < table + kRowBytes * size_t{At<uint32_t>(bytes, kEntriesAt)};
       row += kRowBytes) {
    const auto offset = At<uint64_t>(bytes, row + 8), size = At<uint64_t>(bytes, row + 16);
    if (offset <= bytes.size() && size <= bytes.size() - offset)
      Put<uint32_t>(bytes, row + 24, Crc(std::string_view(bytes).substr(offset, size)));
  }
  MakeHeaderCrcRight(bytes);
}

const char kFile[] = "a.segment";

std::string Written(Random& random) {
  std::vector<std::vector<float>> values(Below(random, 5));
  std::vector<PartView> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].assign(1 + Below(random, 40), 0.5f);
    parts.push_back({static_cast<int32_t>(i % 3), ChunkId(static_cast<int32_t>(i)), values[i]});
  }
  const SegmentMeta meta{"job", LineageNumber(1), Step(static_cast<int64_t>(Below(random, 9))),
                         Below(random, 2) == 0 ? "" : "cluster"};
  MemoryFiles files;
  Check(files.MakeFolder().ok(), "a folder in memory");
  const auto segment = WriteSegment(files, kFile, meta, parts);
  Check(segment.ok(), segment.status().ToString());
  return *files.content.at(kFile);
}

std::string Change(const std::string& input, Random& random) {
  if (input.size() < kFixedBytes) return "";
  std::string bytes = input;
  const size_t changed = std::min(bytes.size(), TableAt(bytes) + 2 * kRowBytes);
  const size_t at = Below(random, changed) / 4 * 4;
  switch (Below(random, 4)) {
    case 0: bytes.resize(Below(random, bytes.size())); break;
    case 1: Put<int64_t>(bytes, at, UglyNumber(random)); break;
    default: Put<int32_t>(bytes, at, static_cast<int32_t>(UglyNumber(random)));
  }
  MakeRight(bytes);
  return bytes;
}

const Form kForm = {Written, Change};

void ExpectAll() {
  Expect("end", {"opened", "an entry read", "no header"});
  ExpectAtLeast("error", 9);
  std::vector<std::string> ends;
  for (const auto& fields : {absl::MakeConstSpan(kHeaderFields), absl::MakeConstSpan(kRowFields)})
    for (const Field& field : fields) {
      if (field.refused) ends.push_back(std::string(field.name) + " refused");
      if (field.taken) ends.push_back(std::string(field.name) + " taken");
    }
  Expect("field", ends);
}

MemoryFiles FilesOf(std::string_view bytes) {
  MemoryFiles files;
  files.content[kFile] = std::make_shared<const std::string>(bytes);
  return files;
}

// The file's own table, as a manifest would have it.
Segment TableOf(std::string_view bytes) {
  Segment segment{kFile, bytes.size(), At<uint32_t>(bytes, kCrcAt), {}};
  size_t row = TableAt(bytes);
  for (uint32_t i = 0; i < At<uint32_t>(bytes, kEntriesAt); ++i, row += kRowBytes)
    segment.entries.push_back({At<int32_t>(bytes, row), ChunkId(At<int32_t>(bytes, row + 4)),
                               At<uint64_t>(bytes, row + 8), At<uint64_t>(bytes, row + 16),
                               At<uint32_t>(bytes, row + 24)});
  return segment;
}

// A bit of one field of a sound file changed, and the checksum of the header made right: the file
// may be sound again, but it is not the one that its manifest tells of.
void ChangeOneField(std::string_view bytes, const Segment& table, const SegmentMeta& meta) {
  size_t draw = std::hash<std::string_view>()(bytes);  // each file has a field of its own changed
  const auto choose = [&draw](size_t end) {
    const size_t chosen = draw % end;
    draw /= end;
    return chosen;
  };
  const size_t rows = table.entries.size(), in_header = std::size(kHeaderFields);
  const size_t chosen = choose(in_header + (rows == 0 ? 0 : std::size(kRowFields)));
  const Field& field = chosen < in_header ? kHeaderFields[chosen] : kRowFields[chosen - in_header];
  const size_t at = field.at + (chosen < in_header ? 0 : TableAt(bytes) + kRowBytes * choose(rows));
  std::string changed(bytes);
  const bool lowest = choose(2) == 0;
  char& byte = changed[lowest ? at : at + field.bytes - 1];
  byte = static_cast<char>(byte ^ (lowest ? 0x01 : 0x80));
  if (at != kCrcAt) MakeHeaderCrcRight(changed);
  const MemoryFiles files = FilesOf(changed);
  const bool taken = ReadSegmentMeta(files, kFile).ok();
  Reach("field", std::string(field.name) + (taken ? " taken" : " refused"));
  Check(!SegmentReader::Open(files, table, meta).ok(), "a changed field is told");
}

void Read(std::string_view bytes, const MemoryFiles& files) {
  const auto meta = ReadSegmentMeta(files, kFile);
  if (!meta.ok()) {
    Reach("end", "no header");
    const std::string said(meta.status().message());
    ReachError(said);
    // It must not be opened as a checkpoint either.
    Check(!SegmentReader::Open(files, {kFile, bytes.size(), 0, {}}, {"job"}).ok(), "opened");
    return;
  }
  Segment table = TableOf(bytes);
  const auto reader = SegmentReader::Open(files, table, *meta);
  Check(reader.ok(), reader.status().ToString());
  Reach("end", "opened");
  for (const SegmentEntry& entry : table.entries) {
    Check(entry.bytes <= kMaxChunkBytes, "an entry is at most a chunk");
    std::vector<float> values(entry.bytes / sizeof(float));
    const absl::Status read = reader->Read(entry, absl::MakeSpan(values));
    if (read.ok()) Reach("end", "an entry read");
    if (!read.ok()) ReachError(read.message());
  }
  SegmentMeta other = *meta;
  other.job += "x";
  Check(!SegmentReader::Open(files, table, other).ok(), "the segment of another job is refused");
  ChangeOneField(bytes, table, *meta);
  table.header_crc32c ^= 1;
  Check(!SegmentReader::Open(files, table, *meta).ok(), "another table is refused");
}

void Run(std::string_view input) {
  const MemoryFiles files = FilesOf(input);
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  Read(input, files);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
