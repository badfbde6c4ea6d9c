// What files of torch.save call types (the storage classes of torch/storage.py), for whoever reads
// and whoever writes them. Pure; any thread.
#pragma once

#include "muster/tensor.h"

namespace muster {

struct TorchStorage {
  const char* name;
  TensorType type;
};
inline constexpr TorchStorage kTorchStorages[] = {
    {"FloatStorage", TensorType::kFloat32}, {"DoubleStorage", TensorType::kFloat64},
    {"HalfStorage", TensorType::kFloat16},  {"BFloat16Storage", TensorType::kBfloat16},
    {"LongStorage", TensorType::kInt64},    {"IntStorage", TensorType::kInt32},
    {"ShortStorage", TensorType::kInt16},   {"CharStorage", TensorType::kInt8},
    {"ByteStorage", TensorType::kUint8},    {"BoolStorage", TensorType::kBool}};

}  // namespace muster
