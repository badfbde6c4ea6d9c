#include "lib/domain/job.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"

namespace muster {

int64_t StepsPerEpoch(const TrainingSpec& training, uint64_t n) {
  const uint64_t batch = static_cast<uint64_t>(training.batch);
  const uint64_t steps = n / batch + (n % batch > 0 ? 1 : 0);
  return static_cast<int64_t>(std::clamp<uint64_t>(steps, 1, kMostSamples));
}

int64_t StepsOfEpochs(const TrainingSpec& training, uint64_t n, int64_t epochs) {
  const int64_t each = StepsPerEpoch(training, n);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return epochs > kMost / each ? kMost : epochs * each;
}

int64_t TotalSteps(const TrainingSpec& training, uint64_t n) {
  if (training.steps == 0) return training.epochs * StepsPerEpoch(training, n);
  return IsStreamed(training) ? std::min(training.steps, StepsPerEpoch(training, n))
                              : training.steps;
}

bool IsWeightOf(const TrainingSpec& training, uint64_t samples, int64_t weight) {
  if (weight < 0) return false;
  const auto told = static_cast<uint64_t>(weight);
  if (training.task == "counting") return told == samples;
  return told <= samples * uint64_t{kMostSampleWeight};
}

bool IsMeasured(const TrainingSpec& training) {
  return training.clip_norm > 0 || training.on_nan != OnNan::kContinue;
}

Lengthening LengtheningOf(const TrainingSpec& held, const TrainingSpec& asked) {
  TrainingSpec same = asked;
  same.steps = held.steps;
  same.epochs = held.epochs;
  if (!(same == held) || asked == held) return {};
  const bool in_steps = held.steps > 0;
  const bool as_before = in_steps == (asked.steps > 0);
  const int64_t had = in_steps ? held.steps : held.epochs;
  const int64_t wants = in_steps ? asked.steps : asked.epochs;
  Lengthening made{in_steps ? "steps" : "epochs", ""};
  if (!as_before)
    made.why_not = absl::StrCat("the job is measured in ", made.field);
  else if (wants < had)
    made.why_not = absl::StrCat(wants, " is less than the ", had, " that the job has");
  else if (DependsOnLength(held.schedule.kind))
    made.why_not =
        "schedule.kind depends on the length: the learning rates of the steps that are done would "
        "have been others";
  return made;
}

int SlotCount(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kRmsprop:
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kLars: return 1;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kLamb: return 2;
  }
  MUSTER_CHECK(false, "an optimizer without a kind");
  return 0;
}

int SlotCount(const TrainingSpec& training) {
  return SlotCount(training.optimizer.kind) + (training.ema_decay > 0 ? 1 : 0);
}

bool DependsOnLength(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kStep:
    case ScheduleKind::kMilestones:
    case ScheduleKind::kPlateau: return false;
    case ScheduleKind::kLinear:
    case ScheduleKind::kCosine:
    case ScheduleKind::kPolynomial:
    case ScheduleKind::kOneCycle: return true;
  }
  MUSTER_CHECK(false, "a schedule without a kind");
  return true;
}

}  // namespace muster
