// How good a state is by one metric: the sum over all samples that it is measured with.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/ids.h"

namespace muster {

struct Measure {
  double sum = 0;
  double weight = 0;
  bool operator==(const Measure&) const = default;
};

// What is measured of one state, as the sum of what all lanes would have brought: the 16 floats of
// each metric, more of an AUC, in their order (lib/domain/validation.h).
inline constexpr size_t kFloatsOfMetric = 16;
struct MeasureSums {
  std::vector<float> floats;
  bool operator==(const MeasureSums&) const = default;
};
// That a follower measured it of this lineage's state(step).
struct MeasureFact {
  LineageNumber lineage;
  Step step;
  MeasureSums sums;
  bool operator==(const MeasureFact&) const = default;
};
// A measure that a state has not learned of yet: that of state(step).
struct PendingMeasure {
  Step step;
  MeasureSums sums;
  bool operator==(const PendingMeasure&) const = default;
};

// Nothing: there is no weight, or the sum is not finite.
inline std::optional<double> MeanOf(const Measure& measure) {
  const double mean = measure.sum / measure.weight;
  if (!(measure.weight > 0) || !std::isfinite(mean)) return std::nullopt;
  return mean;
}

}  // namespace muster
