// The header of a safetensors file. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/tensor.h"

namespace muster {

struct SafetensorsEntry {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

// Length and header, filled up with blanks to 64 bytes; the entries' bytes follow it in their
// order. `about` is text by key, for "__metadata__".
std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                              const std::vector<std::pair<std::string, std::string>>& about);

}  // namespace muster
