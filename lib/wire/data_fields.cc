#include "lib/wire/data_fields.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/domain/tensor_type.h"
#include "lib/wire/learning_fields.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr size_t kMostDimensions = 32;
constexpr int64_t kMostSize = int64_t{1} << 31;

absl::Status CheckMapping(const Document& document, const char* field, const json& value,
                          absl::string_view example) {
  if (!value.is_object())
    return ErrorAt(document, field,
                   absl::StrCat(Describe(value), " is not a mapping; write ", example));
  if (value.size() <= kMostDeclared) return absl::OkStatus();
  return ErrorAt(document, field,
                 absl::StrCat(value.size(), " names; at most ", kMostDeclared, " are allowed"));
}

json MappingSchema(json of) {
  return {{"type", "object"},
          {"maxProperties", kMostDeclared},
          {"additionalProperties", std::move(of)}};
}

}  // namespace

std::vector<std::string> TypeNames() {
  std::vector<std::string> names;
  for (const TensorType type :
       {TensorType::kFloat32, TensorType::kFloat64, TensorType::kFloat16, TensorType::kBfloat16,
        TensorType::kInt64, TensorType::kInt32, TensorType::kInt16, TensorType::kInt8,
        TensorType::kUint8, TensorType::kBool})
    names.emplace_back(NameOf(type));
  return names;
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const Document& document, const std::string& field,
                                               const json& value) {
  if (!value.is_array())
    return ErrorAt(document, field,
                   absl::StrCat(Describe(value),
                                " is not a list; write [3, 4], or [] for a "
                                "single number"));
  if (value.size() > kMostDimensions)
    return ErrorAt(document, field,
                   absl::StrCat(value.size(), " sizes; at most ", kMostDimensions, " are allowed"));
  std::vector<int64_t> shape;
  for (size_t i = 0; i < value.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 size,
                            ReadWhole(document, FieldPath(field, i), value[i], 1, kMostSize));
    shape.push_back(static_cast<int64_t>(size));
  }
  return shape;
}

json ShapeSchema() {
  return {{"type", "array"},
          {"maxItems", kMostDimensions},
          {"items", {{"type", "integer"}, {"minimum", 1}, {"maximum", kMostSize}}}};
}

absl::Status ReadTypes(const Document& document, const json& value,
                       std::map<std::string, TensorType>& types) {
  MUSTER_RETURN_IF_ERROR(CheckMapping(document, "data.types", value, "{x: float32}"));
  types.clear();
  for (const auto& item : value.items()) {
    if (item.value().is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(
        const std::string name,
        ReadChoice(document, FieldPath("data.types", item.key()), item.value(), TypeNames()));
    types[item.key()] = *TensorTypeOf(name);
  }
  return absl::OkStatus();
}

json FromTypes(const std::map<std::string, TensorType>& types) {
  json written = json::object();
  for (const auto& [name, type] : types) written[name] = NameOf(type);
  return written;
}

json TypesSchema() { return MappingSchema({{"type", "string"}, {"enum", TypeNames()}}); }

absl::Status ReadShapes(const Document& document, const json& value,
                        std::map<std::string, std::vector<int64_t>>& shapes) {
  MUSTER_RETURN_IF_ERROR(CheckMapping(document, "data.shapes", value, "{x: [3, 4]}"));
  shapes.clear();
  for (const auto& item : value.items()) {
    if (item.value().is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(
        shapes[item.key()],
        ReadShape(document, FieldPath("data.shapes", item.key()), item.value()));
  }
  return absl::OkStatus();
}

json FromShapes(const std::map<std::string, std::vector<int64_t>>& shapes) {
  json written = json::object();
  for (const auto& [name, shape] : shapes) written[name] = shape;
  return written;
}

json ShapesSchema() { return MappingSchema(ShapeSchema()); }

}  // namespace muster
