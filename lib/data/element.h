// Elements of any type as numbers, and numbers as float32.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/types/span.h"
#include "muster/tensor.h"

namespace muster {

// IEEE 754 binary16.
inline double FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  return bits >> 15 == 0 ? value : -value;
}

inline double FromBfloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return static_cast<double>(value);
}

template <class T>
T ElementAs(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

inline double ElementAsReal(TensorType type, const std::byte* at) {
  switch (type) {
    case TensorType::kFloat32: return static_cast<double>(ElementAs<float>(at));
    case TensorType::kFloat64: return ElementAs<double>(at);
    case TensorType::kFloat16: return FromHalf(ElementAs<uint16_t>(at));
    case TensorType::kBfloat16: return FromBfloat(ElementAs<uint16_t>(at));
    case TensorType::kInt64: return static_cast<double>(ElementAs<int64_t>(at));
    case TensorType::kInt32: return ElementAs<int32_t>(at);
    case TensorType::kInt16: return ElementAs<int16_t>(at);
    case TensorType::kInt8: return ElementAs<int8_t>(at);
    case TensorType::kUint8:
    case TensorType::kBool: return static_cast<double>(ElementAs<uint8_t>(at));
  }
  return 0;
}

inline int64_t ElementAsWhole(TensorType type, const std::byte* at) {
  return type == TensorType::kInt64 ? ElementAs<int64_t>(at)
                                    : static_cast<int64_t>(ElementAsReal(type, at));
}

// Of the bytes of booleans, any of which but 0 is true, as numpy has it: 1, which alone is true in
// C++ and in LibTorch.
inline void MakeBooleans(absl::Span<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = byte == std::byte{0} ? byte : std::byte{1};
}

inline bool IsReal(TensorType type) {
  return type == TensorType::kFloat32 || type == TensorType::kFloat64 ||
         type == TensorType::kFloat16 || type == TensorType::kBfloat16;
}

// What is below the normal range becomes zero by itself, so that it is the same whatever the
// processor is told to do with such numbers.
inline float ToFloat(double value) {
  constexpr auto kSmallest = static_cast<double>(std::numeric_limits<float>::min());
  return std::abs(value) < kSmallest ? std::copysign(0.0f, static_cast<float>(value))
                                     : static_cast<float>(value);
}

}  // namespace muster
