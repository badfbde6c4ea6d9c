// A curve without its noise. Pure.
#pragma once

#include <vector>

#include "lib/plot/curve.h"

namespace muster::plot {

// The exponential moving average, in which each value counts `weight` times as much as the next
// one; what is missing before the first value is taken out of it (Kingma and Ba, "Adam", 2015,
// section 3), so that it begins at the first value. `weight` is in [0, 1); 0: as it is. A gap stays
// one and does not count.
std::vector<Point> Smooth(std::vector<Point> points, double weight);

}  // namespace muster::plot
