#include "lib/member/runtime/frames.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

template <class M>
inline constexpr bool kHasChunkResults = std::is_same_v<M, Results> || std::is_same_v<M, Pieces>;
template <class M>
inline constexpr bool kHasPayload = std::is_same_v<M, Partials> || kHasChunkResults<M>;

// Calls f(chunk, node or nothing, crc) for each part, in payload order.
template <class M, class F>
void ForEachPart(M& message, F f) {
  using Plain = std::remove_const_t<M>;
  if constexpr (std::is_same_v<Plain, Partials>) {
    for (auto& chunk : message.chunks)
      for (auto& partial : chunk.partials) f(chunk.chunk, std::optional(partial.node), partial.crc);
  } else if constexpr (kHasChunkResults<Plain>) {
    for (auto& chunk : message.chunks) f(chunk.chunk, std::optional<TreeNode>(), chunk.meta.crc);
  }
}

bool MayHold(const PeerMessage& message, const Chunk& chunk) {
  const auto* pieces = std::get_if<Pieces>(&message);
  return pieces == nullptr || pieces->kind != PieceKind::kSlot ||
         chunk.kind == TensorKind::kParameter;
}

size_t PayloadBytes(const ChunkPartials& chunk, const Layout& layout) {
  return 4 * static_cast<size_t>(layout.chunk(chunk.chunk).count) * chunk.partials.size();
}
size_t PayloadBytes(const ChunkResult& chunk, const Layout& layout) {
  return 4 * static_cast<size_t>(layout.chunk(chunk.chunk).count);
}

// The message without chunks, and without what only the first frame says.
template <class M>
M Shell(const M& message) {
  M shell = message;
  shell.chunks.clear();
  shell.commands.clear();
  if constexpr (std::is_same_v<M, Pieces>) shell.record.reset();
  return shell;
}

template <class M>
std::vector<PeerMessage> SplitChunks(M message, const Layout& layout, size_t max_bytes) {
  const M shell = Shell(message);
  auto chunks = std::exchange(message.chunks, {});
  std::vector<PeerMessage> frames;
  M current = std::move(message);
  size_t bytes = 0;
  for (auto& chunk : chunks) {
    const size_t more = PayloadBytes(chunk, layout);
    if (!current.chunks.empty() && bytes + more > max_bytes) {
      frames.emplace_back(std::exchange(current, shell));
      bytes = 0;
    }
    current.chunks.push_back(std::move(chunk));
    bytes += more;
  }
  frames.emplace_back(std::move(current));
  return frames;
}

}  // namespace

absl::StatusOr<std::vector<Part>> PartsOf(const PeerMessage& message, const Layout& layout) {
  std::vector<Part> parts;
  size_t at = 0;
  absl::Status status;
  auto add = [&](ChunkId chunk, std::optional<TreeNode> node, uint32_t crc) {
    const bool known = chunk.value() >= 0 && chunk.value() < layout.chunk_count();
    if (!known || !MayHold(message, layout.chunk(chunk))) {
      status = absl::InvalidArgumentError(absl::StrCat("chunk ", chunk.value(), " is not there"));
      return;
    }
    const size_t bytes = 4 * static_cast<size_t>(layout.chunk(chunk).count);
    parts.push_back({chunk, node, at, bytes, crc});
    at += bytes;
  };
  std::visit([&](const auto& m) { ForEachPart(m, add); }, message);
  MUSTER_RETURN_IF_ERROR(status);
  return parts;
}

absl::Status CheckPayload(const std::vector<Part>& parts, const Payload& payload) {
  const size_t wanted = parts.empty() ? 0 : parts.back().byte_offset + parts.back().bytes;
  if (payload.size() != wanted)
    return absl::InvalidArgumentError(
        absl::StrCat("a payload of ", Plural(static_cast<int64_t>(payload.size()), "byte"),
                     ", but its header says ", wanted));
  for (const Part& part : parts) {
    const uint32_t crc =
        Crc32cOfSlices(absl::MakeConstSpan(payload.slices), part.byte_offset, part.bytes);
    if (crc != part.crc)
      return absl::DataLossError(absl::StrCat("chunk ", part.chunk.value(),
                                              " was damaged on its way: CRC32C ", crc,
                                              ", its header says ", part.crc));
  }
  return absl::OkStatus();
}

std::vector<PeerMessage> Split(PeerMessage message, const Layout& layout, size_t max_bytes) {
  return std::visit(
      [&](auto& m) -> std::vector<PeerMessage> {
        if constexpr (kHasPayload<std::decay_t<decltype(m)>>) {
          return SplitChunks(std::move(m), layout, max_bytes);
        } else {
          return {std::move(message)};
        }
      },
      message);
}

void SetChecksums(PeerMessage& message, const std::vector<Part>& parts) {
  size_t next = 0;
  std::visit(
      [&](auto& m) {
        ForEachPart(
            m, [&](ChunkId, std::optional<TreeNode>, uint32_t& crc) { crc = parts[next++].crc; });
      },
      message);
}

}  // namespace muster
