// The area under the curve of true and false positives, of counted scores. Pure; any thread.
#pragma once

#include <limits>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "lib/domain/measure.h"

namespace muster {

// Of whole numbers: how many of the negative class have a score in each bin, and then how many of
// the positive one. The weight is the number of pairs of one of each, the sum that of the pairs in
// which the positive one is in a higher bin, and half of those in which both are in the same: the
// trapezoids below the curve through the bins' borders. So it differs from the AUC of the scores
// themselves by at most half the share of pairs within one bin. Exact but for one rounding of each.
// A count that is no number gives a sum that is none.
inline Measure AucOf(absl::Span<const double> counts) {
  absl::uint128 twice = 0, below = 0, positive = 0;
  const size_t bins = counts.size() / 2;
  for (size_t b = 0; b < bins; ++b) {
    const double of_negative = counts[b], of_positive = counts[bins + b];
    constexpr double kMost = 0x1p60;  // of all lanes together there are fewer
    if (!(of_negative >= 0 && of_negative < kMost && of_positive >= 0 && of_positive < kMost))
      return {std::numeric_limits<double>::quiet_NaN(), 1};
    const absl::uint128 n = static_cast<uint64_t>(of_negative);
    const absl::uint128 p = static_cast<uint64_t>(of_positive);
    twice += p * (2 * below + n);
    below += n;
    positive += p;
  }
  return {static_cast<double>(twice) / 2, static_cast<double>(positive * below)};
}

}  // namespace muster
