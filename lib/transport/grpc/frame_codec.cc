#include "lib/transport/grpc/frame_codec.h"

#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/hand_over.h"

namespace muster {
namespace {

using Keep = std::shared_ptr<const void>;
using Bytes = absl::Span<const std::byte>;

void WritePrefix(size_t header_bytes, uint8_t* out) {
  const auto length = static_cast<uint32_t>(header_bytes);
  for (size_t i = 0; i < kFramePrefixBytes; ++i) out[i] = static_cast<uint8_t>(length >> (8 * i));
}

grpc::Slice EncodePrefixAndHeader(const std::string& header) {
  grpc_slice raw = grpc_slice_malloc(kFramePrefixBytes + header.size());
  uint8_t* out = GRPC_SLICE_START_PTR(raw);
  WritePrefix(header.size(), out);
  // lint: not tensor bytes (the header)
  std::copy(header.begin(), header.end(), out + kFramePrefixBytes);
  return grpc::Slice(raw, grpc::Slice::STEAL_REF);
}

void ReleaseKeep(void* keep) {
  ReceiveFromGrpc(keep);
  delete static_cast<Keep*>(keep);
}

grpc::Slice LendSlice(Bytes bytes, const Keep& keep) {
  if (!keep) return grpc::Slice(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
  Keep* const lent = new Keep(keep);
  GiveToGrpc(lent);
  // gRPC only reads what it sends; its constructor is not const-correct.
  return grpc::Slice(const_cast<std::byte*>(bytes.data()), bytes.size(), &ReleaseKeep, lent);
}

// The prefix, and the header where it lies.
void LendHeader(const std::shared_ptr<const std::string>& header, std::vector<grpc::Slice>& to) {
  std::array<uint8_t, kFramePrefixBytes> prefix;
  WritePrefix(header->size(), prefix.data());
  to.emplace_back(prefix.data(), prefix.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(header->data());
  if (!header->empty()) to.push_back(LendSlice(Bytes(bytes, header->size()), header));
}

// Walks over the slices of a message as one run of bytes.
class SliceReader {
 public:
  explicit SliceReader(std::vector<grpc::Slice>& slices) : slices_(slices) {}

  // At most `want` bytes that lie together; none at the end.
  Bytes Next(size_t want) {
    SkipWhatIsRead();
    if (index_ == slices_.size() || want == 0) return {};
    const grpc::Slice& slice = slices_[index_];
    const size_t n = std::min(want, slice.size() - offset_);
    const Bytes bytes(reinterpret_cast<const std::byte*>(slice.begin()) + offset_, n);
    offset_ += n;
    return bytes;
  }

  // `out` must be no longer than what is left.
  void Copy(void* out, size_t n) {
    for (auto* to = static_cast<std::byte*>(out); n > 0;) {
      const Bytes bytes = Next(n);
      std::memcpy(to, bytes.data(), bytes.size());  // lint: not tensor bytes (prefix and header)
      to += bytes.size();
      n -= bytes.size();
    }
  }

  // The others stay where they are: a small slice has its bytes inside.
  void ReleaseWhatIsRead() {
    SkipWhatIsRead();
    for (size_t i = 0; i < index_; ++i) slices_[i] = grpc::Slice();
  }

 private:
  void SkipWhatIsRead() {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }

  std::vector<grpc::Slice>& slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

uint32_t DecodePrefix(SliceReader& reader) {
  std::array<uint8_t, kFramePrefixBytes> bytes;
  reader.Copy(bytes.data(), bytes.size());
  uint32_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) length |= uint32_t{bytes[i]} << (8 * i);
  return length;
}

}  // namespace

grpc::ByteBuffer EncodeFrame(const Frame& frame) {
  std::vector<grpc::Slice> slices;
  slices.reserve(2 + frame.payload.slices.size());
  if (frame.shared_header) {
    LendHeader(frame.shared_header, slices);
  } else {
    slices.push_back(EncodePrefixAndHeader(frame.header));
  }
  for (const Bytes bytes : frame.payload.slices) {
    if (!bytes.empty()) slices.push_back(LendSlice(bytes, frame.payload.keep));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<Frame> DecodeFrame(const grpc::ByteBuffer& message) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!message.Dump(slices.get()).ok()) {
    return absl::InvalidArgumentError("message cannot be read; is it compressed?");
  }
  const size_t total = message.Length();
  if (total < kFramePrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("message of ", total, " bytes is too short for a frame"));
  }
  SliceReader reader(*slices);
  const size_t header_bytes = DecodePrefix(reader);
  if (header_bytes > total - kFramePrefixBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header length ", header_bytes, " is more than the message of ", total, " bytes holds"));
  }
  MUSTER_RETURN_IF_ERROR(CheckFrameLimits(header_bytes, total - kFramePrefixBytes - header_bytes));
  Frame frame;
  frame.header.resize(header_bytes);
  reader.Copy(frame.header.data(), header_bytes);
  reader.ReleaseWhatIsRead();  // a payload may be kept for long, and nobody weighs its header then
  for (Bytes bytes = reader.Next(total); !bytes.empty(); bytes = reader.Next(total)) {
    frame.payload.slices.push_back(bytes);
  }
  if (!frame.payload.slices.empty()) frame.payload.keep = std::move(slices);
  return frame;
}

}  // namespace muster
