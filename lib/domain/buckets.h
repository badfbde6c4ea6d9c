// In which groups chunks leave a worker while backward still runs. A send schedule only: it changes
// no bit and may differ between members.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/domain/layout.h"

namespace muster {

// All chunks but those of phases, which are told in the midst of lanes, consecutive ones together,
// in the order in which backward fills the flat space (upwards), buffers and sums last. The first
// bucket holds at least `first_bucket_bytes`, so that sending starts early, each further one at
// least `bucket_bytes`; only the last may be smaller. Both are at least 1. A bucket leaves when it
// and all before it are full.
std::vector<std::vector<ChunkId>> Buckets(const Layout& layout, int64_t first_bucket_bytes,
                                          int64_t bucket_bytes);

}  // namespace muster
