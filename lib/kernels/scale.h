// Every element by one number: a single IEEE operation each, the same bits whatever the SIMD width.
// Any thread.
#pragma once

#include "absl/types/span.h"

namespace muster {

// values[i] = values[i] * factor
void Scale(absl::Span<float> values, float factor);

// values[i] = values[i] / divisor, a true division (a product with the reciprocal has other bits).
void DivideBy(absl::Span<float> values, float divisor);

}  // namespace muster
