#include "lib/domain/buckets.h"

namespace muster {

std::vector<std::vector<ChunkId>> Buckets(const Layout& layout, int64_t first_bucket_bytes,
                                          int64_t bucket_bytes) {
  std::vector<std::vector<ChunkId>> buckets;
  int64_t bytes = 0, wanted = 0;
  for (int32_t c = 0; c < layout.chunk_count(); ++c) {
    if (layout.chunk(ChunkId(c)).kind == TensorKind::kPhase) break;
    if (bytes >= wanted) {
      wanted = buckets.empty() ? first_bucket_bytes : bucket_bytes;
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().emplace_back(c);
    bytes += 4 * layout.chunk(ChunkId(c)).count;
  }
  return buckets;
}

}  // namespace muster
