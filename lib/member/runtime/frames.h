// How a peer message and its payload fit together, as a plan: which chunk's bytes stand where.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/domain/layout.h"
#include "lib/domain/message.h"
#include "lib/transport/payload.h"

namespace muster {

// The elements of one chunk (of one subtree of it, in Partials) in a payload.
struct Part {
  ChunkId chunk;
  std::optional<TreeNode> node;  // Partials only
  size_t byte_offset = 0;
  size_t bytes = 0;
  uint32_t crc = 0;
};

// In payload order. kInvalidArgument: a chunk or a list of them that the layout does not have.
absl::StatusOr<std::vector<Part>> PartsOf(const PeerMessage& message, const Layout& layout);

// Before any byte is used. kInvalidArgument: another size than the header says; kDataLoss: a
// checksum is wrong; both name the chunk or the sizes.
absl::Status CheckPayload(const std::vector<Part>& parts, const Payload& payload);

// The same message as several, each with a payload of at most `max_bytes`, or one chunk. What is
// said once (commands, a record) rides in the first.
std::vector<PeerMessage> Split(PeerMessage message, const Layout& layout, size_t max_bytes);

// Writes the parts' checksums into the header.
void SetChecksums(PeerMessage& message, const std::vector<Part>& parts);

}  // namespace muster
