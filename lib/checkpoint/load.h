// Back from disk: verification, loading, falling back, digest. Memory beside the destination is
// bounded by a chunk.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/layout.h"
#include "lib/domain/manifest.h"

namespace muster {

// A whole state in memory, as destination or source: [0] holds layout.elements() values, [1 …] the
// optimizer slots with layout.parameter_elements() each.
using StateSpans = std::vector<absl::Span<float>>;
using ConstStateSpans = std::vector<absl::Span<const float>>;

// Every part of a state of that shape, in (slot, chunk) order, pointing into the spans.
std::vector<PartView> PartViews(const Layout& layout, const ConstStateSpans& state);
std::vector<PartDest> PartDests(const Layout& layout, const StateSpans& state);

// Reads the given parts (an owner's share, or PartDests) and checks each before returning; calls
// `after_each`, if given, after each. The manifest must be complete for `layout`. After an error
// the destination's content is unspecified. kDataLoss names file, slot and chunk.
absl::Status LoadParts(const std::string& dir, const Manifest& manifest, const Layout& layout,
                       absl::Span<const PartDest> parts,
                       const std::function<void()>& after_each = {});

struct Loaded {
  Manifest manifest;
  std::vector<std::string> skipped;  // newer ones that were damaged: which, and why
};

// The first of `candidates` (newest first) that is whole. kNotFound: no candidate; kDataLoss: none
// is whole, each named. Not damage, so no older one is tried: kFailedPrecondition (another layout
// or number of slots), kPermissionDenied. The destination counts only after OK.
absl::StatusOr<Loaded> LoadFirstWhole(const std::string& dir, absl::Span<const Manifest> candidates,
                                      const Layout& layout, const StateSpans& destination);
absl::StatusOr<Loaded> LoadNewest(const Catalogue& catalogue, const std::string& dir,
                                  const std::string& job, const Allowed& allowed,
                                  const Layout& layout, const StateSpans& destination);

// Reads everything, keeps nothing: OK or what is wrong, as LoadParts says it.
absl::Status Verify(const std::string& dir, const Manifest& manifest);

// SHA-256, as 64 hexadecimal digits, over the values and then each optimizer slot: in each the
// tensors in name order, their elements as little-endian floats; holes are outside. The same for a
// checkpoint and for the state it was made of. kCancelled: `stop` was asked for before its end.
absl::StatusOr<std::string> Digest(const std::string& dir, const Manifest& manifest,
                                   const std::stop_token& stop = {});
std::string Digest(const Layout& layout, const ConstStateSpans& state);

}  // namespace muster
