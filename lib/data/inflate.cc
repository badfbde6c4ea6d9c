#include "lib/data/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "lib/base/status.h"
#include "lib/data/held_files.h"

namespace muster {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr int kMostWindow = 15, kGzipHeader = 16;  // zlib.h, inflateInit2

}  // namespace

absl::StatusOr<std::string> Inflate(const ByteSource& packed, Packing packing, uint64_t most) {
  z_stream stream{};
  const int window = packing == Packing::kGzip ? kMostWindow + kGzipHeader : -kMostWindow;
  if (inflateInit2(&stream, window) != Z_OK)
    return absl::ResourceExhaustedError(absl::StrCat(packed.name(), ": no memory to unpack it"));
  const absl::Cleanup end = [&] { inflateEnd(&stream); };
  std::string out;
  std::vector<std::byte> in(kPieceBytes), piece(4 * kPieceBytes);
  int state = Z_OK;
  for (uint64_t at = 0; at < packed.size() || stream.avail_in > 0 || stream.avail_out == 0;) {
    if (stream.avail_in == 0 && at < packed.size()) {
      const auto got = std::min<uint64_t>(in.size(), packed.size() - at);
      MUSTER_RETURN_IF_ERROR(packed.ReadAt(at, {in.data(), static_cast<size_t>(got)}));
      at += got;
      stream.next_in = reinterpret_cast<Bytef*>(in.data());
      stream.avail_in = static_cast<uInt>(got);
    }
    if (state == Z_STREAM_END) {
      if (stream.avail_in == 0) break;
      if (packing == Packing::kRawDeflate)
        return BadAt(packed, at - stream.avail_in, "something follows what is packed");
      inflateReset(&stream);
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    const size_t made = piece.size() - stream.avail_out;
    if (out.size() + made > most)
      return absl::ResourceExhaustedError(
          absl::StrCat(packed.name(), ": unpacked it has more than ", most,
                       " bytes, and no more may be held in memory"));
    out.append(reinterpret_cast<const char*>(piece.data()), made);
    if (state == Z_BUF_ERROR) break;  // nothing more comes of what there is
    if (state != Z_OK && state != Z_STREAM_END)
      return BadAt(packed, at - stream.avail_in,
                   absl::StrCat("it cannot be unpacked: ",
                                stream.msg == nullptr ? "it is broken" : stream.msg));
  }
  if (state != Z_STREAM_END) return BadAt(packed, packed.size(), "it ends before all is unpacked");
  return out;
}

absl::StatusOr<SourcePtr> WithoutGzip(SourcePtr source) {
  std::byte magic[2] = {};
  if (source->size() < sizeof(magic)) return source;
  MUSTER_RETURN_IF_ERROR(source->ReadAt(0, magic));
  if (magic[0] != std::byte{0x1f} || magic[1] != std::byte{0x8b}) return source;
  MUSTER_ASSIGN_OR_RETURN(std::string bytes, Inflate(*source, Packing::kGzip, DataMemory::Left()));
  DataMemory memory;
  MUSTER_RETURN_IF_ERROR(memory.Take(source->name(), bytes.size()));
  const std::string name = source->name();
  return HeldSource(name, std::move(bytes), CheckInTurn({std::move(source)}), std::move(memory));
}

}  // namespace muster
