#include "lib/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace muster {
namespace {

constexpr double kLogOf2 = 0.69314718055994530942;

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

// log(x) for x > 0, by the series of the inverse hyperbolic tangent: log(m·2^k) = k·log(2) +
// 2·artanh((m-1)/(m+1)). To about 1e-16 of max(1, |log(x)|).
double Log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // in [1/2, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);  // within ±0.172
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * s * s + 1.0 / n;
  return exponent * kLogOf2 + 2 * s * sum;
}

// e^x for x ≤ 0, by its Taylor series around the nearest multiple of log(2).
double Exp(double x) {
  const double multiple = std::floor(x / kLogOf2 + 0.5);
  if (multiple < -1000) return 0;
  const double rest = x - multiple * kLogOf2;  // within ±0.35
  double sum = 1;
  for (int n = 16; n >= 1; --n) sum = 1 + rest / n * sum;
  return std::ldexp(sum, static_cast<int>(multiple));
}

// x^power for x in [0, 1] and power > 0; exact at both ends and for a power of 1. For the same
// reason not std::pow.
double Power(double x, double power) {
  if (x == 0 || x == 1 || power == 1) return x;
  return Exp(power * Log(x));
}

double Falls(double gamma, int64_t count) {
  double factor = 1;
  for (; count > 0 && factor > 0; count /= 2, gamma *= gamma)
    if (count % 2 == 1) factor *= gamma;
  return factor;
}

int64_t MilestonesUpTo(const std::vector<int64_t>& milestones, int64_t step) {
  return std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
}

// From `start` to `end` along a half wave, after the fraction t of the way.
double Annealed(double start, double end, double t) { return end + (start - end) * CosineFall(t); }

double OneCycle(double top, const ScheduleSpec& schedule, int64_t step, int64_t total_steps) {
  const double first = top / schedule.div_factor;
  const double peak = schedule.pct_start * static_cast<double>(total_steps) - 1;
  const auto last = static_cast<double>(total_steps - 1);
  const auto at = static_cast<double>(step);
  if (at <= peak) return Annealed(first, top, peak > 0 ? at / peak : 1);
  return Annealed(top, first / schedule.final_div_factor, (at - peak) / (last - peak));
}

// How much of the full rate's excess over the final one is left, after the fraction t of the way.
double Remaining(const ScheduleSpec& schedule, double t) {
  switch (schedule.kind) {
    case ScheduleKind::kLinear: return 1 - t;
    case ScheduleKind::kCosine: return CosineFall(t);
    case ScheduleKind::kPolynomial: return Power(1 - t, schedule.power);
    default: break;
  }
  MUSTER_CHECK(false, "a schedule that does not fall to a final rate");
  return 1;
}

// The share of the full rate at a step at or after the end of the warm-up.
double Share(const ScheduleSpec& schedule, int64_t step, int64_t total_steps, int64_t cuts) {
  switch (schedule.kind) {
    case ScheduleKind::kConstant: return 1;
    case ScheduleKind::kStep: return Falls(schedule.gamma, step / schedule.step_size);
    case ScheduleKind::kPlateau: return std::max(Falls(schedule.gamma, cuts), schedule.final_ratio);
    case ScheduleKind::kMilestones:
      return Falls(schedule.gamma, MilestonesUpTo(schedule.milestones, step));
    default: break;
  }
  const int64_t top = std::max<int64_t>(schedule.warmup_steps - 1, 0);
  const int64_t last = total_steps - 1;
  const double t =
      last > top ? static_cast<double>(std::max(step, top) - top) / static_cast<double>(last - top)
                 : 0;
  const double left = Remaining(schedule, t);
  return left + (1 - left) * schedule.final_ratio;
}

}  // namespace

double LearningRate(const OptimizerSpec& optimizer, const ScheduleSpec& schedule, int64_t step,
                    int64_t total_steps, int64_t cuts) {
  MUSTER_CHECK(step >= 0 && step < total_steps);
  if (schedule.kind == ScheduleKind::kOneCycle)
    return OneCycle(optimizer.learning_rate, schedule, step, total_steps);
  const double share = Share(schedule, step, total_steps, cuts);
  const int64_t warmup = schedule.warmup_steps;
  if (step >= warmup) return optimizer.learning_rate * share;
  return optimizer.learning_rate *
         (static_cast<double>(step + 1) / static_cast<double>(warmup) * share);
}

}  // namespace muster
