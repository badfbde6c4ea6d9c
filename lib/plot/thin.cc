#include "lib/plot/thin.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace muster::plot {
namespace {

constexpr size_t kMostOfColumn = 5;

// What stays of points [first, end), which lie in one column.
void Keep(const std::vector<Point>& points, size_t first, size_t end, std::vector<Point>& kept) {
  std::optional<size_t> head, tail, low, high, gap;
  for (size_t at = first; at < end; ++at) {
    if (!std::isfinite(points[at].y)) {
      if (!gap) gap = at;
      continue;
    }
    if (!head) head = at;
    tail = at;
    if (!low || points[at].y < points[*low].y) low = at;
    if (!high || points[at].y > points[*high].y) high = at;
  }
  std::vector<size_t> chosen;
  for (const std::optional<size_t>& one : {head, tail, low, high, gap})
    if (one) chosen.push_back(*one);
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  for (const size_t at : chosen) kept.push_back(points[at]);
}

}  // namespace

std::vector<Point> Thin(std::vector<Point> points, size_t columns) {
  if (columns == 0 || points.size() <= kMostOfColumn * columns) return points;
  const double from = points.front().x;
  const double width = (points.back().x - from) / static_cast<double>(columns);
  const auto column_of = [&](const Point& point) {
    const double column = width > 0 ? std::floor((point.x - from) / width) : 0;
    return std::min(static_cast<size_t>(column), columns - 1);
  };
  std::vector<Point> kept;
  for (size_t first = 0; first < points.size();) {
    const size_t column = column_of(points[first]);
    size_t end = first + 1;
    while (end < points.size() && column_of(points[end]) == column) ++end;
    Keep(points, first, end, kept);
    first = end;
  }
  return kept;
}

}  // namespace muster::plot
