// Back from disk: loading and digest. Memory beside the destination is bounded by a chunk.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/layout.h"
#include "lib/domain/manifest.h"

namespace muster {

// Reads the given parts (of an owner: those of its chunks) and checks each before returning; calls
// `after_each`, if given, after each. The manifest must be complete for `layout`. After an error
// the destination's content is unspecified. kDataLoss names file, slot and chunk;
// kFailedPrecondition: another layout.
absl::Status LoadParts(const CheckpointFiles& files, const Manifest& manifest, const Layout& layout,
                       absl::Span<const PartDest> parts,
                       const std::function<void()>& after_each = {});

// SHA-256, as 64 hexadecimal digits, over the values and then each optimizer slot: in each the
// tensors in name order, their elements as little-endian floats; holes are outside. kDataLoss as in
// LoadParts; kCancelled: `stop` was asked for before its end.
absl::StatusOr<std::string> Digest(const CheckpointFiles& files, const Manifest& manifest,
                                   const std::stop_token& stop = {});

}  // namespace muster
