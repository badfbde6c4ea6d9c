// A curve as lines of a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/plot/curve.h"

namespace muster::plot {

// `rows` lines with the curve in patterns of Braille (Unicode U+2800 and on: eight dots in each
// character), its least and its largest value beside them, and a line with its first and last x
// below. None is wider than `columns` characters. Empty: there is no value, or no room.
std::vector<std::string> DrawBraille(const std::vector<Point>& points, size_t columns, size_t rows);

}  // namespace muster::plot
