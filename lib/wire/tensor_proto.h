// For lib/wire alone: a tensor of a state, which a manifest and the environment of a job write
// alike.
#pragma once

#include <string>

#include "lib/domain/tensor_type.h"
#include "muster/tensor.h"

namespace muster {

template <class Message>  // v1::Manifest::Tensor or v1::NumericEnvironment::Tensor
void WriteTensor(const TensorSpec& tensor, Message& out) {
  out.set_name(tensor.name);
  out.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  out.set_buffer(tensor.kind == TensorKind::kBuffer);
  out.set_sum(tensor.kind == TensorKind::kSum);
  out.set_phase(tensor.kind == TensorKind::kPhase);
  if (tensor.type != TensorType::kFloat32) out.set_type(NameOf(tensor.type));
  for (const std::string& alias : tensor.aliases) out.add_aliases(alias);
}

// Whoever must not believe one that says of itself several kinds looks for that itself.
template <class Message>
TensorKind KindOfTensor(const Message& message) {
  if (message.sum()) return TensorKind::kSum;
  if (message.phase()) return TensorKind::kPhase;
  return message.buffer() ? TensorKind::kBuffer : TensorKind::kParameter;
}

}  // namespace muster
