// From pixel after pixel to channel after channel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// `pixels` has three channels of each pixel side by side. The first one of all goes to the begin of
// `planes`, the second one from `plane` on, the third one from 2 * plane on: as many as there are
// pixels, each. They do not overlap. Any thread.
void ThreePlanes(absl::Span<const uint8_t> pixels, absl::Span<uint8_t> planes, size_t plane);

}  // namespace muster
