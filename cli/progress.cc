#include "cli/progress.h"

#include <algorithm>

#include "lib/optim/schedule.h"

namespace muster::cli {
namespace {

constexpr size_t kWindowSteps = 40;
constexpr Duration kWindowTime = std::chrono::seconds(15);

}  // namespace

std::optional<double> LearningRateAt(const TrainingSpec& training, const Progress& progress) {
  // Its falls follow from what was measured, of which steps do not tell.
  if (training.schedule.kind == ScheduleKind::kPlateau) return std::nullopt;
  const bool needs_length = DependsOnLength(training.schedule.kind);
  const int64_t steps = needs_length ? progress.steps : progress.step + 1;
  if (progress.step < 0 || progress.step >= steps) return std::nullopt;
  return LearningRate(training.optimizer, training.schedule, progress.step, steps);
}

void ProgressTracker::SetTotals(int64_t steps, int64_t epochs) {
  steps_ = steps;
  epochs_ = epochs;
}

bool ProgressTracker::OnStep(const StepSeen& seen, Time now) {
  at_[seen.member] = seen.step;
  int64_t front = seen.step;
  for (const auto& [member, step] : at_) front = std::max(front, step);
  if (front != seen.step)
    return false;  // a worker behind the others, or the first one back after a rewind
  if (newest_ && newest_->step == seen.step) return false;
  const bool backwards = newest_ && seen.step < newest_->step;
  newest_ = seen;
  if (!first_loss_) first_loss_ = seen.loss;
  if (backwards) window_.clear();
  window_.push_back({now, seen.samples});
  while (window_.size() > kWindowSteps || now - window_.front().at > kWindowTime)
    window_.pop_front();
  return true;
}

void ProgressTracker::OnGone(const std::string& member) { at_.erase(member); }

std::optional<Progress> ProgressTracker::Now() const {
  if (!newest_) return std::nullopt;
  Progress progress{.step = newest_->step,
                    .steps = steps_,
                    .epoch = newest_->epoch,
                    .epochs = epochs_,
                    .loss = newest_->loss,
                    .gradient_norm = newest_->gradient_norm};
  if (window_.size() < 2) return progress;
  // The first sample only starts the clock.
  const double seconds = Seconds(window_.back().at - window_.front().at);
  if (seconds <= 0) return progress;
  int64_t samples = 0;
  for (size_t i = 1; i < window_.size(); ++i) samples += window_[i].samples;
  progress.samples_per_second = static_cast<double>(samples) / seconds;
  const double per_step = seconds / static_cast<double>(window_.size() - 1);
  if (steps_ > 0)
    progress.seconds_left =
        per_step * static_cast<double>(std::max<int64_t>(0, steps_ - 1 - newest_->step));
  return progress;
}

}  // namespace muster::cli
