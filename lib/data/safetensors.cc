#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/data/array_set.h"
#include "lib/data/formats.h"
#include "lib/data/numbers_in_bytes.h"
#include "lib/domain/safetensors_type.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using nlohmann::json;

// Python's reader allows 100 MB, for models of a hundred thousand tensors; of a data set's keys
// a megabyte holds thousands.
constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 20;
constexpr size_t kMostDimensions = 32;
constexpr int kMostDepth = 3;  // the keys, what one holds, its shape

// Whole numbers from 0 alone; false: something else stands there.
template <class T>
bool ReadWholes(const json& value, std::vector<T>& into) {
  if (!value.is_array() || value.size() > kMostDimensions) return false;
  for (const json& number : value) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t{1} << 62) return false;
    into.push_back(static_cast<T>(number.get<uint64_t>()));
  }
  return true;
}

absl::StatusOr<json> ReadHeader(const ByteSource& file, uint64_t& data_at) {
  std::byte length[8] = {};
  if (file.size() < sizeof(length))
    return BadAt(file, file.size(), "it is too short for a safetensors file");
  MUSTER_RETURN_IF_ERROR(file.ReadAt(0, length));
  const auto bytes = LittleEndian<uint64_t>(length);
  if (bytes > kMostHeaderBytes || bytes > file.size() - sizeof(length))
    return BadAt(
        file, 0,
        absl::StrCat("its header would have ", bytes, " bytes; the file has ",
                     file.size() - sizeof(length), ", and ", kMostHeaderBytes, " are allowed"));
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadString(file, sizeof(length), bytes));
  bool too_deep = false;
  const auto keep = [&](int depth, json::parse_event_t, json&) {
    too_deep |= depth > kMostDepth;
    return !too_deep;
  };
  json header = json::parse(text, keep, /*allow_exceptions=*/false);
  if (too_deep || !header.is_object())
    return BadAt(file, sizeof(length), "its header is no JSON object of tensors");
  data_at = sizeof(length) + bytes;
  return header;
}

absl::Status AddTensor(const SourcePtr& file, uint64_t data_at, const std::string& key,
                       const json& tensor, std::vector<Array>& arrays) {
  const auto bad = [&](const std::string& why) {
    return Bad(*file, absl::StrCat("tensor '", key.substr(0, 100), "' ", why));
  };
  const json none;
  const auto at = [&](const char* name) -> const json& {
    return tensor.is_object() && tensor.contains(name) ? tensor[name] : none;
  };
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  const json& dtype = at("dtype");
  if (!dtype.is_string() || !ReadWholes(at("shape"), shape) ||
      !ReadWholes(at("data_offsets"), offsets) || offsets.size() != 2 || offsets[0] > offsets[1])
    return bad("has no dtype, shape and data_offsets that can be");
  const auto* known = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                   [&](const SafetensorsType& type) { return dtype == type.name; });
  if (known == std::end(kSafetensorsTypes))
    return bad(absl::StrCat("is of type ", dtype.get<std::string>().substr(0, 20),
                            ", which cannot be read"));
  if (shape.empty()) return bad("is a single number; its first dimension must be the samples'");
  const auto rows = static_cast<uint64_t>(shape.front());
  shape.erase(shape.begin());
  const DataField field{key, known->type, std::move(shape)};
  MUSTER_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(*file, field));
  const uint64_t bytes = offsets[1] - offsets[0];
  if (bytes % row_bytes != 0 || bytes / row_bytes != rows)
    return bad(
        absl::StrCat("has ", rows, " samples of ", row_bytes, " bytes, and its data is ", bytes));
  return AddPart(arrays, field, false, {file, data_at + offsets[0], rows, row_bytes});
}

}  // namespace

absl::StatusOr<StoredSet> OpenSafetensors(const DataFiles& files, const DataSpec& data) {
  std::vector<Array> found;
  for (const DataFile& file : files) {
    uint64_t data_at = 0;
    MUSTER_ASSIGN_OR_RETURN(const json header, ReadHeader(*file.source, data_at));
    for (const auto& [key, tensor] : header.items())
      if (key != "__metadata__")
        MUSTER_RETURN_IF_ERROR(AddTensor(file.source, data_at, key, tensor, found));
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Array> chosen, ChooseArrays(std::move(found), data));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoredDataSet> set, MakeArraySet(std::move(chosen)));
  return StoredSet{std::move(set), !data.label.empty()};
}

}  // namespace muster
