// What commands print for programs.
#pragma once

#include <cmath>
#include <string>

#include "lib/wire/json_text.h"
#include "nlohmann/json.hpp"

namespace muster::cli {

// As TextOfJson.
template <class Json>
std::string Text(const Json& json, int indent = -1) {
  return TextOfJson(json, indent);
}

// JSON has no word for what is not finite.
inline nlohmann::ordered_json NumberOrNull(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

}  // namespace muster::cli
