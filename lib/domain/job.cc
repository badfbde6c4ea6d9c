#include "lib/domain/job.h"

#include "lib/base/check.h"

namespace muster {

int64_t StepsPerEpoch(const Law& law, uint64_t n) {
  const uint64_t batch = static_cast<uint64_t>(law.batch);
  return static_cast<int64_t>((n + batch - 1) / batch);
}

int64_t TotalSteps(const Law& law, uint64_t n) {
  return law.steps > 0 ? law.steps : law.epochs * StepsPerEpoch(law, n);
}

int SlotCount(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return 0;
    case OptimizerKind::kMomentum: return 1;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW: return 2;
  }
  MUSTER_CHECK(false, "an optimizer without a kind");
  return 0;
}

}  // namespace muster
