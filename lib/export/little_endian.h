// Whole numbers as files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster {

// The lowest `bytes` bytes of it, the least one first.
inline void AppendLittleEndian(uint64_t value, size_t bytes, std::string& out) {
  for (size_t byte = 0; byte < bytes; ++byte) out.push_back(static_cast<char>(value >> (8 * byte)));
}

}  // namespace muster
