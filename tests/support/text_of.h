// What stands in a file.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace muster {

// Empty where there is none.
inline std::string TextOf(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace muster
