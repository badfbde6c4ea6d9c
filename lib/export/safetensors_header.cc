#include "lib/export/safetensors_header.h"

#include <nlohmann/json.hpp>

namespace muster {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignBytes = 64;

const char* NameOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat32: return "F32";
    case TensorType::kFloat64: return "F64";
    case TensorType::kFloat16: return "F16";
    case TensorType::kBfloat16: return "BF16";
    case TensorType::kInt64: return "I64";
    case TensorType::kInt32: return "I32";
    case TensorType::kInt16: return "I16";
    case TensorType::kInt8: return "I8";
    case TensorType::kUint8: return "U8";
    case TensorType::kBool: return "BOOL";
  }
  return "";
}

}  // namespace

std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                              const std::vector<std::pair<std::string, std::string>>& about) {
  ordered_json header;
  for (const auto& [key, text] : about) header["__metadata__"][key] = text;
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    header[entry.name] = {{"dtype", NameOf(entry.type)},
                          {"shape", entry.shape},
                          {"data_offsets", {at, at + entry.bytes}}};
    at += entry.bytes;
  }
  std::string json = header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  json.append((kAlignBytes - (kLengthBytes + json.size()) % kAlignBytes) % kAlignBytes, ' ');
  std::string file;
  for (size_t byte = 0; byte < kLengthBytes; ++byte)
    file.push_back(static_cast<char>(uint64_t{json.size()} >> (8 * byte)));
  return file + json;
}

}  // namespace muster
