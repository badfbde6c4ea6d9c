#include "lib/domain/job.h"

namespace muster {

int64_t StepsPerEpoch(const Law& law, uint64_t n) {
  const uint64_t batch = static_cast<uint64_t>(law.batch);
  return static_cast<int64_t>((n + batch - 1) / batch);
}

int64_t TotalSteps(const Law& law, uint64_t n) {
  return law.steps > 0 ? law.steps : law.epochs * StepsPerEpoch(law, n);
}

}  // namespace muster
