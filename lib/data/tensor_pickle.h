// What the pickle inside a file of torch.save tells of tensors. Python runs what a pickle names;
// here nothing is ever run: of pickle's protocol 2 (pickletools of Python) the part that tensors,
// and dicts, lists, tuples and modules of TorchScript with them, need is understood, and the rest
// is an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"

namespace muster {

// What a file is read for.
enum class PickleOf {
  kArrays,  // of samples
  kModel    // a model's state, which may stand in a dict beside that of an optimizer
};
// Of thousands of tensors, or of a large model's with its optimizer's.
constexpr uint64_t MostPickleBytes(PickleOf of) {
  return uint64_t{1} << (of == PickleOf::kModel ? 23 : 20);
}

// A view of a storage: elements from `offset`, in numbers of elements.
struct PickledTensor {
  // Its key; in a list or tuple "0", "1", …; in a module of TorchScript (what LibTorch's
  // torch::save writes is one) the path to it, "net.0.weight"; empty: the file is this tensor.
  std::string name;
  std::string storage;  // "FloatStorage"
  std::string entry;    // the storage's bytes are the zip's data/ENTRY
  uint64_t offset = 0;
  std::vector<int64_t> shape;    // each 0 or more, at most 32 of them
  std::vector<int64_t> strides;  // as many, each 0 or more
};

// Those that stand by themselves, in the outermost dict, list, tuple or module; what else stands
// there is passed over. Of kModel in the dict that the outermost one holds as "model", "state_dict"
// or "model_state_dict", where it holds one. kDataLoss: it is broken, too long, asks for something
// else to be run, or holds no tensor.
absl::StatusOr<std::vector<PickledTensor>> ReadTensorPickle(const ByteSource& pickle, PickleOf of);

}  // namespace muster
