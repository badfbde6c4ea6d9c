// JSON as text that is always UTF-8: what comes from the command line, a path for instance, may be
// none, and nlohmann's own dump() throws on it.
#pragma once

#include <cmath>
#include <string>

#include "lib/base/printable.h"
#include "nlohmann/json.hpp"

namespace muster::cli {

// On one line, or with so many spaces of indent. Bytes that are not UTF-8 become U+FFFD, and
// control characters escapes, so that it may also go to a terminal.
template <class Json>
std::string Text(const Json& json, int indent = -1) {
  return PrintableJson(
      json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

// JSON has no word for what is not finite.
inline nlohmann::ordered_json NumberOrNull(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

}  // namespace muster::cli
