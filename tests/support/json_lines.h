// What says that it writes JSON lines writes nothing else.
#pragma once

#include <sstream>
#include <string>

#include "nlohmann/json.hpp"

namespace muster {

// The first line of `text` that is no JSON object; empty: all are.
inline std::string LineThatIsNoJson(const std::string& text) {
  if (text.empty()) return "no line at all";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false).is_object())
      return line.empty() ? "an empty line" : line;
  return "";
}

}  // namespace muster
