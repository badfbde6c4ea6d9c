// Numbers in the bytes of a form, as the machine has them; of a place that is not there 0, and
// nothing is written there.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace muster::fuzz {

template <class T>
T At(std::string_view bytes, size_t at) {
  T value{};
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at)
    std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void Put(std::string& bytes, size_t at, T value) {
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at)
    std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace muster::fuzz
