// Numbers with what they count, for people.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// "1 recovery", "3 recoveries".
inline std::string Plural(int64_t n, absl::string_view one, absl::string_view many) {
  return absl::StrCat(n, " ", n == 1 ? one : many);
}

// … with an s: "1 step", "3 steps".
inline std::string Plural(int64_t n, absl::string_view one) {
  return Plural(n, one, absl::StrCat(one, "s"));
}

}  // namespace muster
