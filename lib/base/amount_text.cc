#include "lib/base/amount_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

constexpr double kLeastSeconds = 0.5;  // before that a rate says nothing

}  // namespace

std::string HowLong(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d:%02d min", whole / 60, whole % 60);
  const int64_t minutes = whole / 60;
  if (minutes < 24 * 60) return absl::StrFormat("%d:%02d h", minutes / 60, minutes % 60);
  return absl::StrFormat("%d d %d h", minutes / (24 * 60), minutes / 60 % 24);
}

std::string Bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  const bool whole = unit == 0 || bytes >= 9.95;
  return absl::StrFormat("%.*f %s", whole ? 0 : 1, bytes, kUnits[unit]);
}

std::string PaceText(double done, double total, double seconds,
                     const std::function<std::string(double)>& amount) {
  if (seconds < kLeastSeconds || done <= 0) return "";
  const double left = std::max(total - done, 0.0) * seconds / done;
  return absl::StrCat(amount(done / seconds), " a second, ", HowLong(left), " left");
}

}  // namespace muster
