// The tensors of a model, and where they stand: the flat space of a job holds each at a fixed
// offset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// A buffer (batch-norm statistics) has one contributor: lane 0. A sum is made of what every lane
// tells, for jobs with validation and those that leave out samples; no task has one. A phase is
// what a lane waits for in its midst: a total over all lanes of the step (Syncs in muster/task.h).
enum class TensorKind { kParameter, kBuffer, kSum, kPhase };

// Tensors of the model itself: those that a task is bound to, and that its files have.
constexpr bool IsOfModel(TensorKind kind) {
  return kind == TensorKind::kParameter || kind == TensorKind::kBuffer;
}

// What an element is. Parameters are kFloat32; a buffer may be any of these.
enum class TensorType {
  kFloat32,
  kFloat64,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool
};

constexpr int64_t BytesOfElement(TensorType type) {
  switch (type) {
    case TensorType::kFloat64:
    case TensorType::kInt64: return 8;
    case TensorType::kFloat32:
    case TensorType::kInt32: return 4;
    case TensorType::kFloat16:
    case TensorType::kBfloat16:
    case TensorType::kInt16: return 2;
    case TensorType::kInt8:
    case TensorType::kUint8:
    case TensorType::kBool: return 1;
  }
  return 0;
}

struct TensorSpec {
  std::string name;            // unique, as the model calls it: "blocks.0.attention.query.weight"
  std::vector<int64_t> shape;  // each at least 1; {} is a scalar
  TensorKind kind = TensorKind::kParameter;
  TensorType type = TensorType::kFloat32;
  // Further names of a tensor that stands in the model more than once (tied weights); as unique.
  std::vector<std::string> aliases{};

  std::vector<std::string> Names() const {
    std::vector<std::string> names = {name};
    names.insert(names.end(), aliases.begin(), aliases.end());
    return names;
  }
  int64_t Elements() const {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    return elements;
  }
  int64_t Bytes() const { return Elements() * BytesOfElement(type); }
  bool operator==(const TensorSpec&) const = default;
};

// A tensor's place in the flat space, in floats of 4 bytes. One of another type stands there byte
// for byte as it lies in memory, filled up with zeros to a whole float; these floats are copied and
// never computed with.
struct Placed {
  TensorSpec spec;
  int64_t offset = 0;  // multiple of 16 floats (64 bytes)
  int64_t count = 0;   // of floats: the tensor's bytes ÷ 4, rounded up
};

// Every tensor's place, in the order of Task::Tensors.
struct FlatSpace {
  std::vector<Placed> tensors;
  int64_t elements = 0;  // of floats, holes included; 0: not known yet
};

}  // namespace muster
