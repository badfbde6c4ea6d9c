// How good a state is by one metric: the sum over all samples that it is measured with.
#pragma once

#include <cmath>
#include <optional>

namespace muster {

struct Measure {
  double sum = 0;
  double weight = 0;
  bool operator==(const Measure&) const = default;
};

// Nothing: there is no weight, or the sum is not finite.
inline std::optional<double> MeanOf(const Measure& measure) {
  const double mean = measure.sum / measure.weight;
  if (!(measure.weight > 0) || !std::isfinite(mean)) return std::nullopt;
  return mean;
}

}  // namespace muster
