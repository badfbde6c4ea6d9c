// The header of a .npy file (NumPy's "NEP 1", version 1.0). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/tensor.h"

namespace muster {

// The array's bytes follow it, row by row. Nothing: NumPy has no such type (bfloat16).
std::optional<std::string> NpyHeader(TensorType type, const std::vector<int64_t>& shape);

}  // namespace muster
