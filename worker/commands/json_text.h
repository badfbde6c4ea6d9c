// JSON that commands print for programs. Text of others, such as the names of files or what a
// plug-in tells, may be no UTF-8, and nlohmann's own dump() throws on it.
#pragma once

#include <string>

#include "lib/base/printable.h"
#include "nlohmann/json.hpp"

namespace muster::worker {

// On one line, without its end. Bytes that are not UTF-8 become U+FFFD, and it cannot steer a
// terminal.
template <class Json>
std::string JsonText(const Json& json) {
  return PrintableJson(json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

}  // namespace muster::worker
