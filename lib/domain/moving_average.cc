#include "lib/domain/moving_average.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

bool HasAverageAt(const TrainingSpec& training, Step step) {
  return training.ema_decay > 0 && (step > Step(0) || HasAverageBefore(training.initial));
}

absl::StatusOr<int32_t> AverageSlotOf(const TrainingSpec& training, const Manifest& manifest) {
  if (training.ema_decay == 0)
    return absl::FailedPreconditionError(
        absl::StrCat("job ", manifest.job,
                     " keeps no moving average of its parameters: ema.decay of its specification "
                     "is 0"));
  if (!HasAverageAt(training, manifest.step))
    return absl::FailedPreconditionError(
        absl::StrCat("the state of step ", manifest.step.value(), " of job ", manifest.job,
                     " has no moving average yet: that of ema.decay begins with the first step"));
  if (manifest.slots != SlotCount(training))
    return absl::DataLossError(absl::StrCat("the checkpoint has ", manifest.slots,
                                            " slots, and its specification ", SlotCount(training)));
  return SlotCount(training);
}

}  // namespace muster
