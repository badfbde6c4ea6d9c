#include "lib/export/pickle.h"

#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/domain/torch_storage.h"
#include "lib/export/little_endian.h"

namespace muster {
namespace {

constexpr char kProtocol[] = "\x80\x02";
constexpr char kMark = '(', kEmptyDict = '}', kSetItems = 'u', kEmptyList = ']', kAppends = 'e';
constexpr char kTuple = 't', kEmptyTuple = ')', kGlobal = 'c', kReduce = 'R', kPersistentId = 'Q';
constexpr char kUnicode = 'X', kInt = 'J', kLong = '\x8a', kFloat = 'G';
constexpr char kTrue = '\x88', kFalse = '\x89', kNone = 'N', kStop = '.';

const char* StorageOf(TensorType type) {
  for (const TorchStorage& known : kTorchStorages)
    if (known.type == type) return known.name;
  return "";
}

}  // namespace

Pickle::Pickle() : bytes_(kProtocol) {}

void Pickle::Text(absl::string_view text) {
  bytes_.push_back(kUnicode);
  AppendLittleEndian(text.size(), 4, bytes_);
  absl::StrAppend(&bytes_, text);
}

void Pickle::Integer(int64_t number) {
  if (number >= std::numeric_limits<int32_t>::min() &&
      number <= std::numeric_limits<int32_t>::max()) {
    bytes_.push_back(kInt);
    return AppendLittleEndian(static_cast<uint64_t>(number), 4, bytes_);
  }
  bytes_.push_back(kLong);
  bytes_.push_back(8);
  AppendLittleEndian(static_cast<uint64_t>(number), 8, bytes_);
}

void Pickle::Real(double number) {
  bytes_.push_back(kFloat);
  const auto bits = std::bit_cast<uint64_t>(number);
  for (int byte = 7; byte >= 0; --byte) bytes_.push_back(static_cast<char>(bits >> (8 * byte)));
}

void Pickle::Boolean(bool value) { bytes_.push_back(value ? kTrue : kFalse); }
void Pickle::None() { bytes_.push_back(kNone); }
void Pickle::BeginDict() { bytes_.append({kEmptyDict, kMark}); }
void Pickle::EndDict() { bytes_.push_back(kSetItems); }
void Pickle::BeginList() { bytes_.append({kEmptyList, kMark}); }
void Pickle::EndList() { bytes_.push_back(kAppends); }
void Pickle::BeginTuple() { bytes_.push_back(kMark); }
void Pickle::EndTuple() { bytes_.push_back(kTuple); }

void Pickle::Global(absl::string_view module, absl::string_view name) {
  bytes_.push_back(kGlobal);
  absl::StrAppend(&bytes_, module, "\n", name, "\n");
}

void Pickle::Tensor(absl::string_view key, TensorType type, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t elements = 1;
  for (size_t d = shape.size(); d-- > 0; elements *= shape[d]) strides[d] = elements;
  Global("torch._utils", "_rebuild_tensor_v2");
  BeginTuple();
  BeginTuple();
  Text("storage");
  Global("torch", StorageOf(type));
  Text(key);
  Text("cpu");
  Integer(elements);
  EndTuple();
  bytes_.push_back(kPersistentId);
  Integer(0);  // where in the storage it begins
  for (const std::vector<int64_t>& numbers : {shape, strides}) {
    BeginTuple();
    for (const int64_t number : numbers) Integer(number);
    EndTuple();
  }
  Boolean(false);                        // it needs no gradient
  Global("collections", "OrderedDict");  // of hooks
  bytes_.append({kEmptyTuple, kReduce});
  EndTuple();
  bytes_.push_back(kReduce);
}

std::string Pickle::Finish() {
  bytes_.push_back(kStop);
  return std::move(bytes_);
}

}  // namespace muster
