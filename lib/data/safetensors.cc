#include <utility>

#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/formats.h"
#include "lib/data/tensor_file.h"

namespace muster {
namespace {

// Python's reader allows 100 MB, for models of a hundred thousand tensors; of a data set's keys
// a megabyte holds thousands.
constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 20;

absl::Status AddTensor(const StoredTensor& tensor, std::vector<Array>& arrays) {
  const ByteSource& file = *tensor.source;
  const auto bad = [&](const std::string& why) {
    return Bad(file, absl::StrCat("tensor '", tensor.name.substr(0, 100), "' ", why));
  };
  std::vector<int64_t> shape = tensor.shape;
  if (shape.empty()) return bad("is a single number; its first dimension must be the samples'");
  const auto rows = static_cast<uint64_t>(shape.front());
  shape.erase(shape.begin());
  const DataField field{tensor.name, tensor.type, std::move(shape)};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(file, field));
  if (tensor.bytes % row_bytes != 0 || tensor.bytes / row_bytes != rows)
    return bad(absl::StrCat("has ", rows, " samples of ", row_bytes, " bytes, and its data is ",
                            tensor.bytes));
  return AddPart(arrays, field, false, {tensor.source, tensor.offset, rows, row_bytes});
}

}  // namespace

absl::StatusOr<StoredSet> OpenSafetensors(const DataFiles& files, const DataSpec& data) {
  std::vector<Array> found;
  for (const DataFile& file : files) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<StoredTensor> tensors,
                            ReadSafetensors(file.source, kMostHeaderBytes));
    for (const StoredTensor& tensor : tensors) MUSTER_RETURN_IF_ERROR(AddTensor(tensor, found));
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> chosen, ChooseArrays(std::move(found), data));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(chosen)));
  return StoredSet{std::move(set), !data.label.empty()};
}

}  // namespace muster
