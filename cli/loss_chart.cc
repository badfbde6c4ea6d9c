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

void DropFrom(int64_t step, std::vector<plot::Point>& points) {
  while (!points.empty() && points.back().x >= static_cast<double>(step)) points.pop_back();
}

void Append(int64_t step, double value, std::vector<plot::Point>& points) {
  DropFrom(step, points);
  points.push_back({static_cast<double>(step), value});
  if (points.size() > kMostPoints) points = plot::Thin(std::move(points), kKeptColumns);
}

}  // namespace

// The validation of a step may be told before its loss, and is the same bits where it is done
// again.
void LossChart::Add(int64_t step, double loss) {
  const bool is_back = !points_.empty() && points_.back().x >= static_cast<double>(step);
  if (is_back) DropFrom(step + 1, validation_);
  Append(step, loss, points_);
}

void LossChart::AddValidation(int64_t step, double loss) { Append(step, loss, validation_); }

std::vector<std::string> LossChart::Lines(size_t columns, size_t rows) const {
  if (rows < kLeastWindowRows) return {};
  return plot::DrawBraille(points_, std::min(columns, kMostColumns), kChartRows,
                           {.name = "validation loss", .points = validation_});
}

}  // namespace muster::cli
