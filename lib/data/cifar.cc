#include <utility>

#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/formats.h"

namespace muster {
namespace {

constexpr uint64_t kImageBytes = 3 * 32 * 32;

// A record is its labels, of which the last one counts, and an image.
absl::StatusOr<StoredSet> Open(const DataFiles& files, uint64_t labels) {
  const uint64_t record = labels + kImageBytes;
  std::vector<Array> arrays;
  for (const DataFile& file : files) {
    const uint64_t rows = file.source->size() / record;
    if (file.source->size() % record != 0)
      return BadAt(*file.source, rows * record,
                   absl::StrCat("its last record is cut off; each has ", record, " bytes"));
    const SourcePtr& source = file.source;
    MUSTER_RETURN_IF_ERROR(AddPart(arrays, {"image", TensorType::kUint8, {3, 32, 32}}, false,
                                   {source, labels, rows, record}));
    MUSTER_RETURN_IF_ERROR(AddPart(arrays, {"label", TensorType::kUint8, {}}, false,
                                   {source, labels - 1, rows, record}));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(arrays)));
  return StoredSet{std::move(set), true, true};
}

}  // namespace

absl::StatusOr<StoredSet> OpenCifar10(const DataFiles& files, const DataSpec&) {
  return Open(files, 1);
}
absl::StatusOr<StoredSet> OpenCifar100(const DataFiles& files, const DataSpec&) {
  return Open(files, 2);
}

}  // namespace muster
