// What jobs have whose states are measured by one metric, the loss.
#pragma once

#include "lib/domain/validation.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {

inline NumericEnvironment WithSums(const ValidationSpec& validation) {
  NumericEnvironment environment = Environment();
  const auto sums = SumTensors(validation, {{"loss"}});
  environment.tensors.insert(environment.tensors.end(), sums->begin(), sums->end());
  return environment;
}

inline MeasureSums Fact(float limb) {
  MeasureSums sums;
  sums.floats.assign(kFloatsOfMetric, 0.0f);
  sums.floats[0] = limb;
  sums.floats[11] = 1;
  return sums;
}

}  // namespace muster::coordinator
