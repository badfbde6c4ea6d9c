#include "lib/data/checksum.h"

#include <algorithm>
#include <vector>

#include "lib/base/status.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

}  // namespace

ChecksumInPassing::ChecksumInPassing(const ByteSource& source, const std::function<void()>& goes_on)
    : source_(source), goes_on_(goes_on) {}

absl::Status ChecksumInPassing::Saw(uint64_t offset, absl::Span<const std::byte> bytes) {
  if (!source_.crc() || offset + bytes.size() <= seen_) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(ReadTo(offset));
  bytes.remove_prefix(static_cast<size_t>(seen_ - offset));
  crc_ = Crc32OfZip(bytes, crc_);
  seen_ += bytes.size();
  return absl::OkStatus();
}

absl::Status ChecksumInPassing::Finish() {
  if (!source_.crc()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(ReadTo(source_.size()));
  return crc_ == *source_.crc() ? absl::OkStatus() : ChecksumDiffers(source_);
}

absl::Status ChecksumInPassing::ReadTo(uint64_t offset) {
  std::vector<std::byte> piece;
  while (seen_ < offset) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, offset - seen_)));
    MUSTER_RETURN_IF_ERROR(source_.ReadAt(seen_, absl::MakeSpan(piece)));
    crc_ = Crc32OfZip(piece, crc_);
    seen_ += piece.size();
    goes_on_();
  }
  return absl::OkStatus();
}

absl::Status CheckChecksum(const ByteSource& source) {
  const std::function<void()> nothing = [] {};
  return ChecksumInPassing(source, nothing).Finish();
}

absl::Status ChecksumDiffers(const ByteSource& source) {
  return Bad(source,
             "its checksum differs: these are not the bytes that were saved; save it again");
}

}  // namespace muster
