#include "cli/loss_chart.h"

#include <algorithm>
#include <utility>

#include "lib/plot/braille.h"
#include "lib/plot/thin.h"

namespace muster::cli {
namespace {

constexpr size_t kChartRows = 7;
// A window must leave room for what is said above.
constexpr size_t kLeastWindowRows = 20;
constexpr size_t kMostColumns = 100;
// More points are thinned to those of so many columns, of which a chart has fewer.
constexpr size_t kMostPoints = 16'384;
constexpr size_t kKeptColumns = 1'024;

}  // namespace

void LossChart::Add(int64_t step, double loss) {
  const auto x = static_cast<double>(step);
  while (!points_.empty() && points_.back().x >= x) points_.pop_back();
  points_.push_back({x, loss});
  if (points_.size() > kMostPoints) points_ = plot::Thin(std::move(points_), kKeptColumns);
}

std::vector<std::string> LossChart::Lines(size_t columns, size_t rows) const {
  if (rows < kLeastWindowRows) return {};
  std::vector<std::string> lines =
      plot::DrawBraille(points_, std::min(columns, kMostColumns), kChartRows);
  return lines;
}

}  // namespace muster::cli
