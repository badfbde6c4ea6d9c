#include "lib/export/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "lib/domain/safetensors_type.h"
#include "lib/export/little_endian.h"

namespace muster {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignBytes = 64;

const char* NameOf(TensorType type) {
  for (const SafetensorsType& known : kSafetensorsTypes)
    if (known.type == type) return known.name;
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
  AppendLittleEndian(json.size(), kLengthBytes, file);
  return file + json;
}

}  // namespace muster
