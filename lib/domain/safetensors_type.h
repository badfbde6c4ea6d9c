// What safetensors files call types (https://huggingface.co/docs/safetensors, "Format"), for
// whoever reads and whoever writes them. Pure; any thread.
#pragma once

#include "muster/tensor.h"

namespace muster {

struct SafetensorsType {
  const char* name;
  TensorType type;
};
inline constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F32", TensorType::kFloat32},   {"F64", TensorType::kFloat64}, {"F16", TensorType::kFloat16},
    {"BF16", TensorType::kBfloat16}, {"I64", TensorType::kInt64},   {"I32", TensorType::kInt32},
    {"I16", TensorType::kInt16},     {"I8", TensorType::kInt8},     {"U8", TensorType::kUint8},
    {"BOOL", TensorType::kBool}};

}  // namespace muster
