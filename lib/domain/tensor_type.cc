#include "lib/domain/tensor_type.h"

#include <utility>

namespace muster {
namespace {

constexpr std::pair<TensorType, const char*> kNames[] = {
    {TensorType::kFloat32, "float32"}, {TensorType::kFloat64, "float64"},
    {TensorType::kFloat16, "float16"}, {TensorType::kBfloat16, "bfloat16"},
    {TensorType::kInt64, "int64"},     {TensorType::kInt32, "int32"},
    {TensorType::kInt16, "int16"},     {TensorType::kInt8, "int8"},
    {TensorType::kUint8, "uint8"},     {TensorType::kBool, "bool"},
};

}  // namespace

const char* NameOf(TensorType type) {
  for (const auto& [known, name] : kNames)
    if (known == type) return name;
  return "";
}

std::optional<TensorType> TensorTypeOf(absl::string_view name) {
  for (const auto& [type, known] : kNames)
    if (name == known) return type;
  return std::nullopt;
}

}  // namespace muster
