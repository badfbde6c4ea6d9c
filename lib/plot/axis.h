// Where values stand along an axis, and which of them are written beside it. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::plot {

struct Axis {
  double low = 0;
  double high = 1;  // above `low`
  bool is_log = false;
  std::vector<double> ticks;        // ascending, within the two
  std::vector<std::string> labels;  // of the ticks, all with the same unit and digits

  // 0 at `low`, 1 at `high`.
  double At(double value) const;
};

struct AxisOptions {
  bool is_log = false;
  bool is_whole = false;  // no tick stands between two whole numbers
  int most_ticks = 6;     // about
};

// From the least to the largest of finite values, of at most kLargestDrawn, which are above 0 where
// it is logarithmic. Where all are alike, there is some room around them. Ticks stand at 1, 2 and 5
// times powers of ten (Heckbert, "Nice Numbers for Graph Labels", Graphics Gems, 1990).
Axis MakeAxis(double least, double largest, const AxisOptions& options);
inline constexpr double kLargestDrawn = 1e300;
// What is smaller is 0: with parts of it nobody could reckon.
inline constexpr double kLeastDrawn = 1e-290;

// At most six digits that matter: "0.25", "1234.5", "1.5e-7".
std::string ShortNumber(double value);

}  // namespace muster::plot
