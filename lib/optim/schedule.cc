#include "lib/optim/schedule.h"

#include <algorithm>

#include "lib/base/check.h"

namespace muster {
namespace {

// sin²(π·t/2) for t in [0, 1/2], by the Taylor series of the sine: the math library's own may
// differ in the last bit between machines.
double SquaredSine(double t) {
  constexpr double kQuarter = 1.57079632679489661923;
  const double x = t * kQuarter;
  double sum = 1;
  for (int n = 18; n >= 2; n -= 2) sum = 1 - x * x / (n * (n + 1)) * sum;
  return x * sum * (x * sum);
}

// (1 + cos(π·t)) / 2 = cos²(π·t/2) for t in [0, 1]; exact at both ends.
double CosineFall(double t) { return t <= 0.5 ? 1 - SquaredSine(t) : SquaredSine(1 - t); }

// How much of the full rate's excess over the final one is left, after the fraction t of the way.
double Remaining(ScheduleKind kind, double t) {
  switch (kind) {
    case ScheduleKind::kConstant: return 1;
    case ScheduleKind::kLinear: return 1 - t;
    case ScheduleKind::kCosine: return CosineFall(t);
  }
  MUSTER_CHECK(false, "a schedule without a kind");
  return 1;
}

}  // namespace

double LearningRate(const OptimizerSpec& optimizer, const ScheduleSpec& schedule, int64_t step,
                    int64_t total_steps) {
  MUSTER_CHECK(step >= 0 && step < total_steps);
  const int64_t warmup = schedule.warmup_steps;
  if (step < warmup) {
    return optimizer.learning_rate * (static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  const int64_t top = std::max<int64_t>(warmup - 1, 0);
  const int64_t last = total_steps - 1;
  const double t =
      last > top ? static_cast<double>(step - top) / static_cast<double>(last - top) : 0;
  const double left = Remaining(schedule.kind, t);
  return optimizer.learning_rate * (left + (1 - left) * schedule.final_ratio);
}

}  // namespace muster
