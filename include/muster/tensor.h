// The tensors of a model, and where they stand: the flat space of a job holds each at a fixed
// offset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// A buffer (batch-norm statistics) has one contributor: lane 0.
enum class TensorKind { kParameter, kBuffer };

// Of 32-bit floats.
struct TensorSpec {
  std::string name;            // unique, as the model calls it: "blocks.0.attention.query.weight"
  std::vector<int64_t> shape;  // each at least 1; {} is a scalar
  TensorKind kind = TensorKind::kParameter;
  int64_t Elements() const {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    return elements;
  }
  bool operator==(const TensorSpec&) const = default;
};

// A tensor's place in the flat space, in elements.
struct Placed {
  TensorSpec spec;
  int64_t offset = 0;  // multiple of 16 elements (64 bytes)
  int64_t count = 0;
};

// Every tensor's place, in the order of Task::Tensors.
struct FlatSpace {
  std::vector<Placed> tensors;
  int64_t elements = 0;  // holes included; 0: not known yet
};

}  // namespace muster
