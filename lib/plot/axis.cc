#include "lib/plot/axis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace muster::plot {
namespace {

// Below so much of the values themselves a difference is rounding.
constexpr double kLeastSpan = 1e-12;
constexpr double kRoundingSlack = 1e-9;

// The least 1, 2 or 5 times a power of ten that is not below.
double NiceStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - kRoundingSlack)) return factor * power;
  return 10 * power;
}

double LinearStep(double low, double high, const AxisOptions& options) {
  const double step = NiceStep((high - low) / std::max(1, options.most_ticks));
  return options.is_whole ? std::max(1.0, step) : step;
}

std::vector<double> LinearTicks(double low, double high, double step) {
  std::vector<double> ticks;
  const double last = std::floor(high / step + kRoundingSlack);
  for (double i = std::ceil(low / step - kRoundingSlack); i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

// Each of `factors` times each power of ten that is a multiple of `every`.
std::vector<double> LogTicks(double low, double high, const std::vector<double>& factors,
                             int every) {
  std::vector<double> ticks;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  for (int power = first; power <= last; ++power) {
    if (power % every != 0) continue;
    for (const double factor : factors) {
      const double tick = factor * std::pow(10, power);
      if (tick >= low * (1 - kRoundingSlack) && tick <= high * (1 + kRoundingSlack))
        ticks.push_back(tick);
    }
  }
  return ticks;
}

// "1e-05" → "1e-5", "1e+20" → "1e20".
std::string WithoutPadding(const std::string& number) {
  return absl::StrReplaceAll(number, {{"e-0", "e-"}, {"e+0", "e"}, {"e+", "e"}});
}

struct Unit {
  double size;
  const char* name;
};

// Thousands are written as "20k" from five digits on.
Unit UnitOf(double largest) {
  constexpr double kLeastDigits = 1e4;
  for (const Unit unit : {Unit{1e12, "T"}, Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}})
    if (largest >= std::max(unit.size, kLeastDigits)) return unit;
  return {1, ""};
}

std::vector<std::string> LinearLabels(const std::vector<double>& ticks, double step) {
  std::vector<std::string> labels;
  double largest = 0;
  for (const double tick : ticks) largest = std::max(largest, std::fabs(tick));
  const bool is_odd = largest >= 1e15 || largest < 1e-3;
  const Unit unit = UnitOf(largest);
  const int digits =
      static_cast<int>(std::max(0.0, -std::floor(std::log10(step / unit.size) + kRoundingSlack)));
  for (const double tick : ticks) {
    if (std::fabs(tick) < step / 2) {
      labels.emplace_back("0");
    } else if (is_odd) {
      labels.push_back(WithoutPadding(absl::StrFormat("%.4g", tick)));
    } else {
      labels.push_back(absl::StrFormat("%.*f%s", digits, tick / unit.size, unit.name));
    }
  }
  return labels;
}

void SetLinear(Axis& axis, const AxisOptions& options) {
  const double step = LinearStep(axis.low, axis.high, options);
  axis.ticks = LinearTicks(axis.low, axis.high, step);
  axis.labels = LinearLabels(axis.ticks, step);
}

void SetLog(Axis& axis, const AxisOptions& options) {
  const double decades = std::log10(axis.high) - std::log10(axis.low);
  const int every =
      std::max(1, static_cast<int>(std::ceil(decades / std::max(1, options.most_ticks))));
  axis.ticks = LogTicks(axis.low, axis.high, {1}, every);
  if (axis.ticks.size() < 3) axis.ticks = LogTicks(axis.low, axis.high, {1, 2, 5}, 1);
  if (axis.ticks.size() < 3) return SetLinear(axis, options);
  for (const double tick : axis.ticks)
    axis.labels.push_back(WithoutPadding(absl::StrFormat("%.3g", tick)));
}

}  // namespace

double Axis::At(double value) const {
  if (is_log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

Axis MakeAxis(double least, double largest, const AxisOptions& options) {
  constexpr double kAround = 0.05;
  if (options.is_log) least = std::max(least, kLeastDrawn);
  largest = std::max(largest, least);
  const double size = std::max(std::fabs(least), std::fabs(largest));
  if (size < kLeastDrawn || largest - least <= kLeastSpan * size) {
    const double around = options.is_whole || size < kLeastDrawn ? 1 : kAround * size;
    least -= around;
    largest += around;
  }
  Axis axis{.low = least, .high = largest, .is_log = options.is_log, .ticks = {}, .labels = {}};
  if (axis.is_log) {
    SetLog(axis, options);
  } else {
    SetLinear(axis, options);
  }
  return axis;
}

std::string ShortNumber(double value) {
  if (!std::isfinite(value)) return "?";
  return WithoutPadding(absl::StrFormat("%.6g", value));
}

}  // namespace muster::plot
