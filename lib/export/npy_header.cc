#include "lib/export/npy_header.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/export/little_endian.h"

namespace muster {
namespace {

constexpr size_t kAlignBytes = 64;
constexpr size_t kBeforeText = 10;  // magic, version, length

const char* DescriptionOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat32: return "<f4";
    case TensorType::kFloat64: return "<f8";
    case TensorType::kFloat16: return "<f2";
    case TensorType::kInt64: return "<i8";
    case TensorType::kInt32: return "<i4";
    case TensorType::kInt16: return "<i2";
    case TensorType::kInt8: return "|i1";
    case TensorType::kUint8: return "|u1";
    case TensorType::kBool: return "|b1";
    case TensorType::kBfloat16: return nullptr;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> NpyHeader(TensorType type, const std::vector<int64_t>& shape) {
  const char* const description = DescriptionOf(type);
  if (description == nullptr) return std::nullopt;
  std::string text =
      absl::StrCat("{'descr': '", description, "', 'fortran_order': False, ", "'shape': (",
                   absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  text.append(kAlignBytes - (kBeforeText + text.size() + 1) % kAlignBytes, ' ');
  text.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  AppendLittleEndian(text.size(), 2, header);
  return header + text;
}

}  // namespace muster
