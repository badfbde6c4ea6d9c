// Curves as an SVG picture that shows itself light or dark, as its reader has it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/plot/axis.h"
#include "lib/plot/curve.h"

namespace muster::plot {

// Of the classes `line0`, `dot0` and so on.
inline constexpr size_t kColours = 8;

struct PictureOptions {
  std::string title;
  std::string x_label = "step";
  std::string y_label;
  bool is_log = false;  // the y axis; values of 0 and below are left out then
  double smooth = 0;    // as of Smooth; above 0 the curves themselves stand faintly behind
};

struct Picture {
  PictureOptions options;
  std::string svg;
  // Where the axes lie, in the units of the picture's view box.
  double left = 0, top = 0, width = 0, height = 0;
  Axis x, y;
  std::vector<Curve> drawn;  // as their lines are: thinned, and smooth where that is asked for
  std::vector<Curve> given;  // as they came
};

// Any number of points is thinned to what can be seen. Values that are not finite, or larger than
// kLargestDrawn, are gaps; a point between two gaps is a dot. Names may be any text, and long ones
// are cut where they are shown.
Picture Draw(std::vector<Curve> curves, const PictureOptions& options);

// `text` inside an element or an attribute of XML or HTML. What these cannot hold is made
// printable.
std::string EscapeXml(const std::string& text);

}  // namespace muster::plot
