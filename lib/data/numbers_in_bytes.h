// Whole numbers as files hold them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

template <class T>
T LittleEndian(const std::byte* bytes) {
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;)
    value = static_cast<T>(static_cast<uint64_t>(value) << 8 | static_cast<uint64_t>(bytes[i]));
  return value;
}

inline uint32_t BigEndian32(const std::byte* bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[i]);
  return value;
}

}  // namespace muster
