#include "lib/plot/braille.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/plot/axis.h"
#include "lib/plot/thin.h"

namespace muster::plot {
namespace {

constexpr int64_t kDotColumns = 2, kDotRows = 4;  // of a character
constexpr size_t kLeastColumns = 10;              // of the curve
constexpr size_t kLabel = 9;                      // characters beside it

// The dots of a grid, each a bit of its character.
class Dots {
 public:
  Dots(size_t columns, size_t rows) : columns_(columns), cells_(columns * rows) {}

  void Set(int64_t x, int64_t y) {
    // Braille numbers its dots 1 to 6 down the left and the right side, and 7 and 8 below these.
    constexpr uint8_t kBits[kDotRows][kDotColumns] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const auto cell = static_cast<size_t>(y / kDotRows) * columns_ + static_cast<size_t>(x / 2);
    cells_[cell] = static_cast<uint8_t>(cells_[cell] | kBits[y % kDotRows][x % kDotColumns]);
  }

  // U+2800 to U+28FF as UTF-8; blanks at its end are left out.
  std::string Row(size_t row) const {
    std::string text;
    size_t end = columns_;
    while (end > 0 && cells_[row * columns_ + end - 1] == 0) --end;
    for (size_t i = 0; i < end; ++i) {
      const uint8_t bits = cells_[row * columns_ + i];
      if (bits == 0) {
        text += ' ';
      } else {
        text += '\xe2';
        text += static_cast<char>(0xa0 | (bits >> 6));
        text += static_cast<char>(0x80 | (bits & 0x3f));
      }
    }
    return text;
  }

 private:
  const size_t columns_;
  std::vector<uint8_t> cells_;
};

struct Dot {
  int64_t x = 0;
  int64_t y = 0;
};

void DrawLine(Dots& dots, Dot from, Dot to) {
  const int64_t steps = std::max({std::abs(to.x - from.x), std::abs(to.y - from.y), int64_t{1}});
  for (int64_t i = 0; i <= steps; ++i)
    dots.Set(from.x + (to.x - from.x) * i / steps, from.y + (to.y - from.y) * i / steps);
}

std::string Label(double value) {
  std::string text = absl::StrFormat("%.4g", value);
  if (text.size() > kLabel) text = absl::StrFormat("%.2g", value);
  return text;
}

bool IsDrawn(const Point& point) {
  return std::isfinite(point.y) && std::fabs(point.y) <= kLargestDrawn;
}

// "0          12": the first and the last x below the curve.
std::string Feet(double first, double last, size_t columns) {
  const std::string left = absl::StrFormat("%.0f", first), right = absl::StrFormat("%.0f", last);
  if (right.size() > columns) return "";
  if (first == last || left.size() + right.size() + 1 > columns) return right;
  return absl::StrCat(left, std::string(columns - left.size() - right.size(), ' '), right);
}

}  // namespace

std::vector<std::string> DrawBraille(const std::vector<Point>& points, size_t columns,
                                     size_t rows) {
  const size_t beside = kLabel + 2;
  const auto first = std::find_if(points.begin(), points.end(), IsDrawn);
  if (columns < beside + kLeastColumns || rows < 2 || first == points.end()) return {};
  const size_t width = columns - beside;
  const int64_t across = static_cast<int64_t>(width) * kDotColumns - 1;
  const int64_t down = static_cast<int64_t>(rows) * kDotRows - 1;

  double least = first->y, largest = first->y, left = first->x, right = first->x;
  for (const Point& point : points) {
    if (!IsDrawn(point)) continue;
    least = std::min(least, point.y);
    largest = std::max(largest, point.y);
    right = point.x;
  }
  const auto dot_of = [&](const Point& point) {
    const double x = right > left ? (point.x - left) / (right - left) : 0;
    const double y = largest > least ? (point.y - least) / (largest - least) : 0.5;
    return Dot{std::llround(x * static_cast<double>(across)),
               down - std::llround(y * static_cast<double>(down))};
  };
  Dots dots(width, rows);
  Dot before;
  bool is_begun = false;  // a line, at `before`
  for (const Point& point : Thin(points, static_cast<size_t>(across) + 1)) {
    if (!IsDrawn(point)) {
      is_begun = false;
      continue;
    }
    const Dot dot = dot_of(point);
    DrawLine(dots, is_begun ? before : dot, dot);
    is_begun = true;
    before = dot;
  }

  std::vector<std::string> lines;
  const bool is_level = largest == least;
  for (size_t row = 0; row < rows; ++row) {
    const bool is_low = row + 1 == rows && !is_level, is_high = row == 0 && !is_level;
    const bool is_only = row == (rows - 1) / 2 && is_level;
    const std::string label = is_high ? Label(largest) : is_low || is_only ? Label(least) : "";
    lines.push_back(absl::StrFormat("%*s %s%s", static_cast<int>(kLabel), label,
                                    label.empty() ? "│" : "┤", dots.Row(row)));
  }
  lines.push_back(absl::StrCat(std::string(beside, ' '), Feet(left, right, width)));
  return lines;
}

}  // namespace muster::plot
