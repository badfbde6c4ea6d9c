// A number as programs write it: absl::SimpleAtoi also takes blanks around it and a plus sign.
#pragma once

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace muster {

// Digits and nothing else; false: the text is something else, or too large for Int.
template <class Int>
[[nodiscard]] bool ParseDigits(absl::string_view text, Int* number) {
  const auto is_digit = [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); };
  return std::all_of(text.begin(), text.end(), is_digit) && absl::SimpleAtoi(text, number);
}

}  // namespace muster
