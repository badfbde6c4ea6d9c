#include "lib/plot/smooth.h"

#include <cmath>

namespace muster::plot {

std::vector<Point> Smooth(std::vector<Point> points, double weight) {
  double average = 0;
  double missing = 1;  // of all weights: that of what stands before the first value
  for (Point& point : points) {
    if (!std::isfinite(point.y)) continue;
    average = weight * average + (1 - weight) * point.y;
    missing *= weight;
    point.y = average / (1 - missing);
  }
  return points;
}

}  // namespace muster::plot
