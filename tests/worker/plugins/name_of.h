// Names of tests are words.
#pragma once

#include <string>

#include "absl/strings/ascii.h"

namespace muster {

inline std::string NameOf(std::string text) {
  for (char& c : text)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

}  // namespace muster
