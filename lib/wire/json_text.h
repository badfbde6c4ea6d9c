// JSON as text that is always UTF-8: what comes from the command line, names of files or what a
// plug-in tells may be none, and nlohmann's own dump() throws on it.
#pragma once

#include <string>

#include "lib/base/printable.h"
#include "nlohmann/json.hpp"

namespace muster {

// On one line, without its end, or with so many spaces of indent. Bytes that are not UTF-8 become
// U+FFFD, and control characters escapes, so that it may also go to a terminal.
template <class Json>
std::string TextOfJson(const Json& json, int indent = -1) {
  return PrintableJson(
      json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

}  // namespace muster
