#include "lib/data/read_good.h"

namespace muster {

// Nearly always all are good, and are read at once.
absl::StatusOr<std::vector<uint32_t>> ReadGood(const DataSet& set, int64_t epoch,
                                               absl::Span<const uint64_t> ids, Batch& batch,
                                               size_t first) {
  std::vector<uint32_t> bad;
  const absl::Status all = set.ReadInto(epoch, ids, batch, first);
  if (all.ok()) return bad;
  if (!IsBadSample(all)) return all;
  for (size_t i = 0; i < ids.size(); ++i) {
    const absl::Status one = set.ReadInto(epoch, ids.subspan(i, 1), batch, first + i);
    if (one.ok()) continue;
    if (!IsBadSample(one)) return one;
    bad.push_back(static_cast<uint32_t>(i));
  }
  return bad;
}

}  // namespace muster
