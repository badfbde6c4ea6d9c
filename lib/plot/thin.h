// Fewer points that draw the same picture. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/plot/curve.h"

namespace muster::plot {

// Of each of `columns` equal parts of the x axis the first value, the last, the lowest and the
// highest stay, and one gap where there is any: what a line through all points covers in a column
// of pixels is what it covers through these (Jugel, Jerzak, Hackenbroich and Markl, "M4: A
// Visualization-Oriented Time Series Data Aggregation", VLDB 2014). Few points stay as they are.
std::vector<Point> Thin(std::vector<Point> points, size_t columns);

}  // namespace muster::plot
