// Reductions with a fixed shape: the same bits whatever the SIMD width. Any thread.
#pragma once

#include "absl/types/span.h"

namespace muster {

// Sum of squares in fp64. Value i goes to virtual lane i mod 8; a lane adds its squares in order of
// i, starting from +0.0; the lanes l0 … l7 are combined as ((l0+l1)+(l2+l3)) + ((l4+l5)+(l6+l7)).
// The square of an fp32 value is exact in fp64. The shape depends on where the span begins, so
// callers cut at fixed places (per chunk) and add the parts in order.
double SumOfSquares(absl::Span<const float> values);

}  // namespace muster
