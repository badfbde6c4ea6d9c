// Whether values are finite. Any thread.
#pragma once

#include "absl/types/span.h"

namespace muster {

// None of them is an infinity or not a number. One pass that reads; nothing is rounded, so the
// float environment does not matter.
bool AllFinite(absl::Span<const float> values);

}  // namespace muster
