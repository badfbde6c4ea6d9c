// What a sample of a data set is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/tensor.h"

namespace muster {

// What each sample holds under one name.
struct DataField {
  std::string name;  // "input", "label", "image", or the key of an array
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;  // of one sample, each at least 1; {}: one element

  int64_t Bytes() const {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    return elements * BytesOfElement(type);
  }
  bool operator==(const DataField&) const = default;
};

}  // namespace muster
