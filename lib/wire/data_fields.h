// For lib/wire alone: fields of what a job's files hold that are more than one value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/config/document.h"
#include "muster/tensor.h"

namespace muster {

inline constexpr size_t kMostDeclared = 4096;

// Those of tensors, as float32.
std::vector<std::string> TypeNames();

// The sizes of one sample, none for a single number. kInvalidArgument.
absl::StatusOr<std::vector<int64_t>> ReadShape(const Document& document, const std::string& field,
                                               const nlohmann::json& value);
nlohmann::json ShapeSchema();

// A type for each name. kInvalidArgument with the path, as in data.types.x.
absl::Status ReadTypes(const Document& document, const nlohmann::json& value,
                       std::map<std::string, TensorType>& types);
nlohmann::json FromTypes(const std::map<std::string, TensorType>& types);
nlohmann::json TypesSchema();

// The sizes of one sample for each name, none for a single number. kInvalidArgument with the path,
// as in data.shapes.x[1].
absl::Status ReadShapes(const Document& document, const nlohmann::json& value,
                        std::map<std::string, std::vector<int64_t>>& shapes);
nlohmann::json FromShapes(const std::map<std::string, std::vector<int64_t>>& shapes);
nlohmann::json ShapesSchema();

}  // namespace muster
