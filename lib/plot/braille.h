// A curve as lines of a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/plot/curve.h"

namespace muster::plot {

// Points of their own on the axes of a curve, each as the letter o.
struct Marks {
  std::string name{};  // stands between the first and the last x, where there is room
  std::vector<Point> points{};
};

// `rows` lines with the curve in patterns of Braille (Unicode U+2800 and on: eight dots in each
// character), the marks on it, the least and the largest value beside them, and a line with the
// first and the last x below. None is wider than `columns` characters. Empty: the curve has no
// value, or there is no room.
std::vector<std::string> DrawBraille(const std::vector<Point>& points, size_t columns, size_t rows,
                                     const Marks& marks = {});

}  // namespace muster::plot
