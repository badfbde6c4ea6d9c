#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/formats.h"
#include "lib/data/inflate.h"
#include "lib/data/numbers_in_bytes.h"

namespace muster {
namespace {

constexpr size_t kMostDimensions = 8;

struct IdxType {
  int code;
  TensorType type;
};
constexpr IdxType kTypes[] = {{0x08, TensorType::kUint8},   {0x09, TensorType::kInt8},
                              {0x0b, TensorType::kInt16},   {0x0c, TensorType::kInt32},
                              {0x0d, TensorType::kFloat32}, {0x0e, TensorType::kFloat64}};

absl::Status AddIdx(const SourcePtr& file, std::vector<Array>& inputs, std::vector<Array>& labels) {
  std::byte magic[4] = {};
  if (file->size() < sizeof(magic))
    return BadAt(*file, file->size(), "it is too short for an idx file");
  MUSTER_RETURN_IF_ERROR(file->ReadAt(0, magic));
  const int code = static_cast<int>(magic[2]);
  const auto dimensions = static_cast<size_t>(magic[3]);
  const auto* known = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const IdxType& type) { return type.code == code; });
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || known == std::end(kTypes) ||
      dimensions == 0 || dimensions > kMostDimensions)
    return BadAt(*file, 0, "it is no idx file");
  std::byte sizes[4 * kMostDimensions] = {};
  const absl::Span<std::byte> used = absl::MakeSpan(sizes).first(4 * dimensions);
  MUSTER_RETURN_IF_ERROR(file->ReadAt(sizeof(magic), used));
  const uint64_t rows = BigEndian32(sizes);
  DataField field{dimensions == 1 ? "label" : "input", known->type, {}};
  for (size_t d = 1; d < dimensions; ++d)
    field.shape.push_back(static_cast<int64_t>(BigEndian32(sizes + 4 * d)));
  if (field.type == TensorType::kUint8 && dimensions == 3) {
    field.name = "image";
    field.shape.insert(field.shape.begin(), 1);  // one channel
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*file, field));
  return AddPart(dimensions == 1 ? labels : inputs, field, BytesOfElement(field.type) > 1,
                 {file, sizeof(magic) + used.size(), rows, row_bytes});
}

}  // namespace

absl::StatusOr<StoredSet> OpenIdx(const DataFiles& files, const DataSpec&) {
  std::vector<Array> inputs, labels;
  for (const DataFile& file : files) {
    MUSTER_ASSIGN_OR_RETURN(const SourcePtr unpacked, WithoutGzip(file.source));
    MUSTER_RETURN_IF_ERROR(AddIdx(unpacked, inputs, labels));
  }
  if (inputs.size() > 1)
    return Bad(*inputs.back().parts.front().source,
               "it has other dimensions than the idx files before it");
  if (inputs.empty() && !labels.empty()) return absl::InvalidArgumentError("nothing but labels");
  const bool has_label = !labels.empty();
  const bool is_picture = !inputs.empty() && inputs.front().field.name == "image";
  std::move(labels.begin(), labels.end(), std::back_inserter(inputs));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(inputs)));
  return StoredSet{std::move(set), has_label, is_picture};
}

}  // namespace muster
