#include "lib/data/stored_set.h"

#include <algorithm>

#include "lib/base/status.h"

namespace muster {
namespace {

// As much as stays in a core's own cache.
constexpr size_t kReadTogether = size_t{256} << 10;

}  // namespace

absl::Status StoredDataSet::ReadEach(int64_t epoch, absl::Span<const uint64_t> ids,
                                     TakeSample take) const {
  const std::vector<DataField>& fields = Fields();
  const size_t together = std::clamp<size_t>(kReadTogether / Batch::BytesFor(fields, 1), 1,
                                             std::max<size_t>(1, ids.size()));
  Batch batch(fields, together);
  std::vector<absl::Span<const std::byte>> rows(fields.size());
  for (size_t read = 0; read < ids.size(); read += together) {
    const absl::Span<const uint64_t> now = ids.subspan(read, together);
    MUSTER_RETURN_IF_ERROR(ReadInto(epoch, now, batch, 0));
    for (size_t i = 0; i < now.size(); ++i) {
      for (size_t f = 0; f < rows.size(); ++f) rows[f] = std::as_const(batch).row(f, i);
      take(read + i, rows);
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
