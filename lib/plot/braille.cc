#include "lib/plot/braille.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/plot/axis.h"
#include "lib/plot/thin.h"

namespace muster::plot {
namespace {

constexpr int64_t kDotColumns = 2, kDotRows = 4;  // of a character
constexpr size_t kLeastColumns = 10;              // of the curve
constexpr size_t kLabel = 9;                      // characters beside it
constexpr char kMark = 'o';

// The dots of a grid, each a bit of its character, and marks in the place of characters.
class Dots {
 public:
  Dots(size_t columns, size_t rows)
      : columns_(columns), cells_(columns * rows), is_marked_(columns * rows) {}

  void Set(int64_t x, int64_t y) {
    // Braille numbers its dots 1 to 6 down the left and the right side, and 7 and 8 below these.
    constexpr uint8_t kBits[kDotRows][kDotColumns] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const size_t cell = CellOf(x, y);
    cells_[cell] = static_cast<uint8_t>(cells_[cell] | kBits[y % kDotRows][x % kDotColumns]);
  }
  void Mark(int64_t x, int64_t y) { is_marked_[CellOf(x, y)] = true; }

  // U+2800 to U+28FF as UTF-8; blanks at its end are left out.
  std::string Row(size_t row) const {
    std::string text;
    size_t end = columns_;
    const auto is_blank = [&](size_t i) {
      return cells_[row * columns_ + i] == 0 && !is_marked_[row * columns_ + i];
    };
    while (end > 0 && is_blank(end - 1)) --end;
    for (size_t i = 0; i < end; ++i) {
      const uint8_t bits = cells_[row * columns_ + i];
      if (is_marked_[row * columns_ + i]) {
        text += kMark;
      } else if (bits == 0) {
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
  size_t CellOf(int64_t x, int64_t y) const {
    return static_cast<size_t>(y / kDotRows) * columns_ + static_cast<size_t>(x / kDotColumns);
  }

  const size_t columns_;
  std::vector<uint8_t> cells_;
  std::vector<bool> is_marked_;
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

// "0     o name     12": the first and the last x below the curve, and what marks are.
std::string Feet(double first, double last, size_t columns, const std::string& name) {
  const std::string left = absl::StrFormat("%.0f", first), right = absl::StrFormat("%.0f", last);
  if (right.size() > columns) return "";
  if (first == last || left.size() + right.size() + 1 > columns) return right;
  const size_t between = columns - left.size() - right.size();
  const std::string marks = name.empty() ? "" : absl::StrCat(std::string(1, kMark), " ", name);
  if (marks.empty() || marks.size() + 2 > between)
    return absl::StrCat(left, std::string(between, ' '), right);
  const size_t before = (between - marks.size()) / 2;
  return absl::StrCat(left, std::string(before, ' '), marks,
                      std::string(between - marks.size() - before, ' '), right);
}

// What the axes have to hold.
struct Bounds {
  double least = 0, largest = 0, left = 0, right = 0;
};
std::optional<Bounds> BoundsOf(const std::vector<Point>& points) {
  const auto first = std::find_if(points.begin(), points.end(), IsDrawn);
  if (first == points.end()) return std::nullopt;
  Bounds bounds{first->y, first->y, first->x, first->x};
  for (const Point& point : points) {
    if (!IsDrawn(point)) continue;
    bounds.least = std::min(bounds.least, point.y);
    bounds.largest = std::max(bounds.largest, point.y);
    bounds.right = point.x;
  }
  return bounds;
}
Bounds Together(const Bounds& a, const Bounds& b) {
  return {std::min(a.least, b.least), std::max(a.largest, b.largest), std::min(a.left, b.left),
          std::max(a.right, b.right)};
}

}  // namespace

std::vector<std::string> DrawBraille(const std::vector<Point>& points, size_t columns, size_t rows,
                                     const Marks& marks) {
  const size_t beside = kLabel + 2;
  const std::optional<Bounds> of_curve = BoundsOf(points);
  if (columns < beside + kLeastColumns || rows < 2 || !of_curve) return {};
  const size_t width = columns - beside;
  const int64_t across = static_cast<int64_t>(width) * kDotColumns - 1;
  const int64_t down = static_cast<int64_t>(rows) * kDotRows - 1;
  const std::optional<Bounds> of_marks = BoundsOf(marks.points);
  const Bounds bounds = of_marks ? Together(*of_curve, *of_marks) : *of_curve;
  const double low = bounds.least, high = bounds.largest;
  const double begin = bounds.left, end = bounds.right;
  const auto dot_of = [&](const Point& point) {
    const double x = end > begin ? (point.x - begin) / (end - begin) : 0;
    const double y = high > low ? (point.y - low) / (high - low) : 0.5;
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
  for (const Point& point : marks.points)
    if (IsDrawn(point)) dots.Mark(dot_of(point).x, dot_of(point).y);

  std::vector<std::string> lines;
  const bool is_level = high == low;
  for (size_t row = 0; row < rows; ++row) {
    const bool is_low = row + 1 == rows && !is_level, is_high = row == 0 && !is_level;
    const bool is_only = row == (rows - 1) / 2 && is_level;
    const std::string label = is_high ? Label(high) : is_low || is_only ? Label(low) : "";
    lines.push_back(absl::StrFormat("%*s %s%s", static_cast<int>(kLabel), label,
                                    label.empty() ? "│" : "┤", dots.Row(row)));
  }
  lines.push_back(
      absl::StrCat(std::string(beside, ' '), Feet(begin, end, width, of_marks ? marks.name : "")));
  return lines;
}

}  // namespace muster::plot
