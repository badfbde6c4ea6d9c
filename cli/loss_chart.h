// The loss of a job so far, and what it measured of its validation data, in bounded memory, as the
// small chart above a progress line. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/plot/curve.h"

namespace muster::cli {

class LossChart {
 public:
  // A step that is not behind the last one is of a rewind, and what it left out goes.
  void Add(int64_t step, double loss);
  // Validation loss of the state that the step began with, on the axis of the loss. Likewise.
  void AddValidation(int64_t step, double loss);

  // The chart for a window of that size, always of as many lines; empty: the window is too small,
  // or there is no loss yet.
  std::vector<std::string> Lines(size_t columns, size_t rows) const;

 private:
  std::vector<plot::Point> points_;      // thinned once they are many
  std::vector<plot::Point> validation_;  // likewise
};

}  // namespace muster::cli
