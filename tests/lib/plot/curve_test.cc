// Thinning and smoothing, each beside what is plainly so.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/plot/smooth.h"
#include "lib/plot/thin.h"

namespace muster::plot {
namespace {

using ::testing::ElementsAre;

std::vector<Point> Random(size_t count, double gaps, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> part(0, 1);
  std::vector<Point> points;
  double x = 0;
  for (size_t i = 0; i < count; ++i) {
    x += part(random) < 0.1 ? 50 : 1;
    points.push_back({x, part(random) < gaps ? NAN : std::pow(part(random), 9)});
  }
  return points;
}

struct Covered {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool operator==(const Covered&) const = default;
};

// What the values of each column span.
std::vector<Covered> ByColumn(const std::vector<Point>& points, double from, double to,
                              size_t columns) {
  std::vector<Covered> all(columns);
  for (const Point& point : points) {
    if (!std::isfinite(point.y)) continue;
    const double column =
        std::floor((point.x - from) / ((to - from) / static_cast<double>(columns)));
    Covered& in = all[std::min(static_cast<size_t>(column), columns - 1)];
    in.low = std::min(in.low, point.y);
    in.high = std::max(in.high, point.y);
  }
  return all;
}

TEST(ThinTest, EachColumnCoversWhatAllPointsCover) {
  for (const size_t count : {0u, 1u, 2u, 499u, 501u, 10'007u})
    for (const double gaps : {0.0, 0.3, 1.0}) {
      const std::vector<Point> all = Random(count, gaps, 1);
      constexpr size_t kColumns = 100;
      const std::vector<Point> thin = Thin(all, kColumns);
      EXPECT_LE(thin.size(), 5 * kColumns);
      EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end(),
                                 [](const Point& a, const Point& b) { return a.x < b.x; }));
      if (count < 2) continue;
      EXPECT_EQ(ByColumn(thin, all.front().x, all.back().x, kColumns),
                ByColumn(all, all.front().x, all.back().x, kColumns))
          << count << " points, gaps " << gaps;
    }
}

TEST(ThinTest, AMillionPointsKeepTheirOneOutlierAndTheirEnds) {
  std::vector<Point> all;
  for (int i = 0; i < 1'000'000; ++i) all.push_back({static_cast<double>(i), 1});
  all[654'321].y = 1000;
  const std::vector<Point> thin = Thin(all, 1000);
  EXPECT_LE(thin.size(), 5000u);
  EXPECT_EQ(thin.front(), all.front());
  EXPECT_EQ(thin.back(), all.back());
  EXPECT_TRUE(std::count(thin.begin(), thin.end(), Point{654'321, 1000}));
}

TEST(ThinTest, PointsAtOneStepAreThinnedToo) {
  EXPECT_LE(Thin(std::vector<Point>(1000, Point{3, 4}), 10).size(), 50u);
}

TEST(SmoothTest, IsTheWeightedMeanOfAllThatWasBefore) {
  const std::vector<Point> all = Random(200, 0.1, 2);
  for (const double weight : {0.0, 0.5, 0.9}) {
    const std::vector<Point> smooth = Smooth(all, weight);
    for (size_t at = 0; at < all.size(); ++at) {
      if (!std::isfinite(all[at].y)) {
        EXPECT_FALSE(std::isfinite(smooth[at].y));
        continue;
      }
      double sum = 0, weights = 0, of = 1;
      for (size_t back = at + 1; back-- > 0;) {
        if (!std::isfinite(all[back].y)) continue;
        sum += of * all[back].y;
        weights += of;
        of *= weight;
      }
      EXPECT_NEAR(smooth[at].y, sum / weights, 1e-12) << at << " with " << weight;
    }
  }
}

TEST(SmoothTest, BeginsAtTheFirstValue) {
  EXPECT_THAT(Smooth({{0, 8}}, 0.9), ElementsAre(Point{0, 8}));
}

}  // namespace
}  // namespace muster::plot
