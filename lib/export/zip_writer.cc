#include "lib/export/zip_writer.h"

#include <algorithm>
#include <limits>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/export/little_endian.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDescriptor = 0x08074b50, kDirectory = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr uint16_t kVersion = 20, kVersion64 = 45;
constexpr uint16_t kHasDescriptor = 1 << 3, kUtf8 = 1 << 11;
constexpr uint16_t kZip64Extra = 1, kPadding = 0x4246;  // "FB", as torch.save pads
constexpr uint16_t kFirstOf1980 = 1 << 5 | 1;           // January 1st: no date in the file
constexpr size_t kLocalHeaderBytes = 30, kExtraHeaderBytes = 4, kAlignBytes = 64;
constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMost16 = std::numeric_limits<uint16_t>::max();

class Fields {
 public:
  Fields& U16(uint64_t value) { return Number(value, 2); }
  Fields& U32(uint64_t value) { return Number(value, 4); }
  Fields& U64(uint64_t value) { return Number(value, 8); }
  Fields& Text(absl::string_view text) {
    bytes_.append(text.data(), text.size());
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Fields& Number(uint64_t value, size_t size) {
    AppendLittleEndian(value, size, bytes_);
    return *this;
  }
  std::string bytes_;
};

// A record of another size than fits into 32 bits says so in its descriptor, too.
bool Is64(uint64_t bytes) { return bytes >= kMost32; }

}  // namespace

absl::Status ZipWriter::Write(absl::string_view bytes) {
  written_ += bytes.size();
  return to_.Append(BytesOf(bytes));
}

absl::Status ZipWriter::Begin(const std::string& name, uint64_t bytes) {
  MUSTER_CHECK(!is_open_, "a record is whole before the next one begins");
  records_.push_back({name, written_, bytes, 0});
  left_ = bytes;
  is_open_ = true;
  Fields extra;
  if (Is64(bytes)) extra.U16(kZip64Extra).U16(16).U64(0).U64(0);
  const uint64_t before =
      written_ + kLocalHeaderBytes + name.size() + extra.bytes().size() + kExtraHeaderBytes;
  const uint64_t padding = (kAlignBytes - before % kAlignBytes) % kAlignBytes;
  extra.U16(kPadding).U16(padding).Text(std::string(padding, '\0'));
  Fields header;
  header.U32(kLocalHeader).U16(Is64(bytes) ? kVersion64 : kVersion).U16(kHasDescriptor | kUtf8);
  header.U16(0).U16(0).U16(kFirstOf1980);  // stored, at midnight
  const uint64_t unknown = Is64(bytes) ? kMost32 : 0;
  header.U32(0).U32(unknown).U32(unknown).U16(name.size()).U16(extra.bytes().size());
  MUSTER_RETURN_IF_ERROR(Write(header.Text(name).Text(extra.bytes()).bytes()));
  return bytes == 0 ? End() : absl::OkStatus();
}

absl::Status ZipWriter::Append(absl::Span<const std::byte> bytes) {
  MUSTER_CHECK(is_open_ && bytes.size() <= left_, "a record has the bytes that it was begun with");
  records_.back().crc = Crc32OfZip(bytes, records_.back().crc);
  left_ -= bytes.size();
  written_ += bytes.size();
  MUSTER_RETURN_IF_ERROR(to_.Append(bytes));
  return left_ == 0 ? End() : absl::OkStatus();
}

absl::Status ZipWriter::Add(const std::string& name, absl::string_view content) {
  MUSTER_RETURN_IF_ERROR(Begin(name, content.size()));
  return content.empty() ? absl::OkStatus() : Append(BytesOf(content));
}

absl::Status ZipWriter::End() {
  is_open_ = false;
  const Record& record = records_.back();
  Fields descriptor;
  descriptor.U32(kDescriptor).U32(record.crc);
  if (Is64(record.bytes)) {
    descriptor.U64(record.bytes).U64(record.bytes);
  } else {
    descriptor.U32(record.bytes).U32(record.bytes);
  }
  return Write(descriptor.bytes());
}

absl::Status ZipWriter::Finish() {
  MUSTER_CHECK(!is_open_, "the last record is whole");
  const uint64_t begin = written_;
  for (const Record& record : records_) {
    const bool is_large = Is64(record.bytes), is_far = record.at >= kMost32;
    Fields extra;
    if (is_large || is_far) {
      extra.U16(kZip64Extra).U16((is_large ? 16 : 0) + (is_far ? 8 : 0));
      if (is_large) extra.U64(record.bytes).U64(record.bytes);
      if (is_far) extra.U64(record.at);
    }
    const uint16_t version = is_large || is_far ? kVersion64 : kVersion;
    const uint64_t bytes = is_large ? kMost32 : record.bytes;
    Fields entry;
    entry.U32(kDirectory).U16(version).U16(version).U16(kHasDescriptor | kUtf8);
    entry.U16(0).U16(0).U16(kFirstOf1980).U32(record.crc).U32(bytes).U32(bytes);
    entry.U16(record.name.size()).U16(extra.bytes().size()).U16(0).U16(0).U16(0).U32(0);
    entry.U32(is_far ? kMost32 : record.at).Text(record.name).Text(extra.bytes());
    MUSTER_RETURN_IF_ERROR(Write(entry.bytes()));
  }
  const uint64_t size = written_ - begin, count = records_.size(), end64 = written_;
  Fields end;
  if (begin >= kMost32 || size >= kMost32 || count >= kMost16) {
    constexpr uint64_t kRestOfEnd64 = 44;
    end.U32(kEnd64).U64(kRestOfEnd64).U16(kVersion64).U16(kVersion64).U32(0).U32(0);
    end.U64(count).U64(count).U64(size).U64(begin);
    end.U32(kEnd64Locator).U32(0).U64(end64).U32(1);
  }
  end.U32(kEnd).U16(0).U16(0).U16(std::min(count, kMost16)).U16(std::min(count, kMost16));
  end.U32(std::min(size, kMost32)).U32(std::min(begin, kMost32)).U16(0);
  return Write(end.bytes());
}

}  // namespace muster
