// Start and placement numbers, which name something for ever: each begins with the term of the
// coordinator that gave it, and a counter within that term follows.
#pragma once

#include "lib/base/ids.h"

namespace muster {

inline constexpr int kBitsOfCounter = 32;

template <class Number>
constexpr TermNumber TermThatGave(Number number) {
  return TermNumber(number.value() >> kBitsOfCounter);
}

}  // namespace muster
