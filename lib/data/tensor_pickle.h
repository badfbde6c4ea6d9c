// What the pickle inside a file of torch.save tells of tensors. Python runs what a pickle names;
// here nothing is ever run: of pickle's protocol 2 (pickletools of Python) the part that tensors,
// and dicts, lists and tuples of them, need is understood, and the rest is an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"

namespace muster {

inline constexpr uint64_t kMostPickleBytes = uint64_t{1} << 20;  // of thousands of tensors

// A view of a storage: elements from `offset`, in numbers of elements.
struct PickledTensor {
  std::string name;     // its key; in a list or tuple "0", "1", …; empty: the file is this tensor
  std::string storage;  // "FloatStorage"
  std::string entry;    // the storage's bytes are the zip's data/ENTRY
  uint64_t offset = 0;
  std::vector<int64_t> shape;    // each 0 or more, at most 32 of them
  std::vector<int64_t> strides;  // as many, each 0 or more
};

// Those that stand by themselves, in the outermost dict, list or tuple; what else stands there is
// passed over. kDataLoss: it is broken, too long, asks for something else to be run, or holds no
// tensor.
absl::StatusOr<std::vector<PickledTensor>> ReadTensorPickle(const ByteSource& pickle);

}  // namespace muster
