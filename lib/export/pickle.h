// What of Python's pickle (protocol 2) a file of tensors needs, as torch.load(weights_only=True)
// allows it. Each call appends one value; those between Begin… and End… are its parts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "muster/tensor.h"

namespace muster {

class Pickle {
 public:
  Pickle();

  void Text(absl::string_view text);
  void Integer(int64_t number);
  void Real(double number);
  void Boolean(bool value);
  void None();
  void BeginDict();  // then a key and a value in turn
  void EndDict();
  void BeginList();
  void EndList();
  void BeginTuple();
  void EndTuple();
  // A contiguous tensor whose bytes are the record data/KEY of the zip file around it.
  void Tensor(absl::string_view key, TensorType type, const std::vector<int64_t>& shape);

  std::string Finish();

 private:
  void Global(absl::string_view module, absl::string_view name);

  std::string bytes_;
};

}  // namespace muster
