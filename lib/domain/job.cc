#include "lib/domain/job.h"

#include "lib/base/check.h"

namespace muster {

int64_t StepsPerEpoch(const TrainingSpec& training, uint64_t n) {
  const uint64_t batch = static_cast<uint64_t>(training.batch);
  return static_cast<int64_t>((n + batch - 1) / batch);
}

int64_t TotalSteps(const TrainingSpec& training, uint64_t n) {
  return training.steps > 0 ? training.steps : training.epochs * StepsPerEpoch(training, n);
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
