// Files of tensors with names, as models are kept in. Bytes from outside: what is told here lies
// within the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"
#include "muster/tensor.h"

namespace muster {

// Its elements, little-endian and row by row, from `offset` of `source` on.
struct StoredTensor {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;  // {} is a single number; 0 may stand in it
  SourcePtr source;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Those of a safetensors file, by name, with sizes as the header tells them; whoever reads them
// looks whether they fit. kDataLoss: it is none, its header has more bytes than `most_header` or a
// name twice, a tensor is of a type that cannot be read, two share bytes, or some bytes are none's;
// the message names the file and the tensor.
absl::StatusOr<std::vector<StoredTensor>> ReadSafetensors(const SourcePtr& file,
                                                          uint64_t most_header);

// Those of a model in a file of torch.save or of LibTorch's torch::save, as ReadTensorPickle names
// them; each lies in its storage, row by row. kDataLoss: it is none, is broken, or holds what is no
// tensor of a type and place that can be read.
absl::StatusOr<std::vector<StoredTensor>> ReadPt(const SourcePtr& file);

// Those of a model's file. What it is is told by its first bytes, whatever its name: torch.save
// writes zip files, and what is no pickle either is safetensors. Each tensor has the bytes of its
// shape, which lie within its source. kDataLoss as of these, and where a name stands there twice.
absl::StatusOr<std::vector<StoredTensor>> ReadTensorFile(const SourcePtr& file);

}  // namespace muster
