// The names of tensors' types, as people, files and messages say them: float32, int64 and so on.
// Pure; any thread.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "muster/tensor.h"

namespace muster {

const char* NameOf(TensorType type);
std::optional<TensorType> TensorTypeOf(absl::string_view name);  // nothing: there is no such type

}  // namespace muster
