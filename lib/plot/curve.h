// What a picture shows: values over steps, with a name. Plain values.
#pragma once

#include <string>
#include <vector>

namespace muster::plot {

struct Point {
  double x = 0;
  double y = 0;  // one that is not finite is a gap
  bool operator==(const Point&) const = default;
};

struct Curve {
  std::string name;
  std::vector<Point> points;  // by x, ascending
};

}  // namespace muster::plot
