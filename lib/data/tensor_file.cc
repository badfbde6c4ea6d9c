#include "lib/data/tensor_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/data/numbers_in_bytes.h"
#include "lib/domain/safetensors_type.h"

namespace muster {
namespace {

using nlohmann::json;

// Of a model: a hundred thousand tensors have about ten megabytes. A parsed header takes some ten
// times as much memory.
constexpr uint64_t kMostHeader = uint64_t{16} << 20;
constexpr size_t kMostDimensions = 32;
constexpr int kMostDepth = 3;  // the names, what one holds, its shape
constexpr size_t kShownName = 100;

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

absl::Status BadTensor(const ByteSource& file, const std::string& name, absl::string_view why) {
  return Bad(file, absl::StrCat("tensor '", name.substr(0, kShownName), "' ", why));
}

absl::StatusOr<json> ReadHeader(const ByteSource& file, uint64_t most, uint64_t& data_at) {
  std::byte length[8] = {};
  if (file.size() < sizeof(length))
    return BadAt(file, file.size(), "it is too short for a safetensors file");
  MUSTER_RETURN_IF_ERROR(file.ReadAt(0, length));
  const auto bytes = LittleEndian<uint64_t>(length);
  if (bytes > most || bytes > file.size() - sizeof(length))
    return BadAt(file, 0,
                 absl::StrCat("its header would have ", bytes, " bytes; the file has ",
                              file.size() - sizeof(length), ", and ", most,
                              " are allowed; it is cut off, or no safetensors file"));
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadString(file, sizeof(length), bytes));
  bool too_deep = false;
  std::set<std::string> names;
  std::optional<std::string> twice;
  const auto keep = [&](int depth, json::parse_event_t event, json& value) {
    too_deep |= depth > kMostDepth;
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return !too_deep;
  };
  json header = json::parse(text, keep, /*allow_exceptions=*/false);
  if (too_deep || !header.is_object())
    return BadAt(file, sizeof(length), "its header is no JSON object of tensors");
  if (twice) return BadTensor(file, *twice, "stands there twice");
  data_at = sizeof(length) + bytes;
  return header;
}

absl::StatusOr<StoredTensor> ReadTensor(const SourcePtr& file, uint64_t data_at,
                                        const std::string& name, const json& tensor) {
  const json none;
  const auto at = [&](const char* key) -> const json& {
    return tensor.is_object() && tensor.contains(key) ? tensor[key] : none;
  };
  StoredTensor stored{.name = name, .source = file};
  std::vector<uint64_t> offsets;
  const json& dtype = at("dtype");
  if (!dtype.is_string() || !ReadWholes(at("shape"), stored.shape) ||
      !ReadWholes(at("data_offsets"), offsets) || offsets.size() != 2 || offsets[0] > offsets[1])
    return BadTensor(*file, name, "has no dtype, shape and data_offsets that can be");
  const auto* known = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                   [&](const SafetensorsType& type) { return dtype == type.name; });
  if (known == std::end(kSafetensorsTypes))
    return BadTensor(*file, name,
                     absl::StrCat("is of type ", dtype.get<std::string>().substr(0, 20),
                                  ", which cannot be read"));
  stored.type = known->type;
  stored.offset = data_at + offsets[0];
  stored.bytes = offsets[1] - offsets[0];
  return stored;
}

// Nothing: more than any file has.
std::optional<uint64_t> BytesOfShape(const StoredTensor& tensor) {
  auto bytes = static_cast<uint64_t>(BytesOfElement(tensor.type));
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return 0;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || static_cast<uint64_t>(size) > std::numeric_limits<int64_t>::max() / bytes)
      return std::nullopt;
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

absl::Status CheckTensor(const StoredTensor& tensor) {
  const ByteSource& file = *tensor.source;
  if (BytesOfShape(tensor) != tensor.bytes)
    return BadTensor(
        file, tensor.name,
        absl::StrCat("has ", tensor.bytes, " bytes, which are not those of its shape"));
  if (tensor.offset <= file.size() && tensor.bytes <= file.size() - tensor.offset)
    return absl::OkStatus();
  return BadTensor(file, tensor.name,
                   absl::StrCat("ends at byte ", tensor.offset + tensor.bytes,
                                ", and the file has ", file.size()));
}

// The tensors' bytes lie one behind the other, from the header to the end of the file: the format
// says so, so that a file that was broken or joined wrongly is noticed. What ends behind the file
// is for whoever reads it.
absl::Status CheckCovered(const ByteSource& file, uint64_t data_at,
                          const std::vector<StoredTensor>& tensors) {
  std::vector<const StoredTensor*> sorted;
  for (const StoredTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  uint64_t end = data_at;
  for (const StoredTensor* tensor : sorted) {
    if (tensor->offset != end)
      return BadTensor(
          file, tensor->name,
          absl::StrCat("begins at byte ", tensor->offset, ", and what stands before it ",
                       "ends at byte ", end, "; the file is broken"));
    end += tensor->bytes;
  }
  if (end >= file.size()) return absl::OkStatus();
  return BadAt(file, end,
               absl::StrCat("its last tensor ends here, and ", file.size() - end,
                            " bytes follow; the file is broken"));
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ReadSafetensors(const SourcePtr& file,
                                                          uint64_t most_header) {
  uint64_t data_at = 0;
  MUSTER_ASSIGN_OR_RETURN(const json header, ReadHeader(*file, most_header, data_at));
  std::vector<StoredTensor> tensors;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    MUSTER_ASSIGN_OR_RETURN(StoredTensor stored, ReadTensor(file, data_at, name, tensor));
    tensors.push_back(std::move(stored));
  }
  MUSTER_RETURN_IF_ERROR(CheckCovered(*file, data_at, tensors));
  return tensors;
}

absl::StatusOr<std::vector<StoredTensor>> ReadTensorFile(const SourcePtr& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::string begin,
                          ReadString(*file, 0, std::min<uint64_t>(2, file->size())));
  const bool is_pt = absl::StartsWith(begin, "PK") || absl::StartsWith(begin, "\x80\x02");
  MUSTER_ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors,
                          is_pt ? ReadPt(file) : ReadSafetensors(file, kMostHeader));
  std::set<absl::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    MUSTER_RETURN_IF_ERROR(CheckTensor(tensor));
    if (!names.insert(tensor.name).second)
      return BadTensor(*file, tensor.name, "stands there twice");
  }
  return tensors;
}

}  // namespace muster
