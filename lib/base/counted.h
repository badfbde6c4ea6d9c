// "1 step", "3 steps".
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

inline std::string Counted(int64_t n, absl::string_view one) {
  return absl::StrCat(n, " ", one, n == 1 ? "" : "s");
}

}  // namespace muster
