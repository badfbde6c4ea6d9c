// What happens again and again for one cause: told whole the first time, then only counted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::cli {

class Repeats {
 public:
  struct Told {
    bool is_first = true;
    int64_t times = 1;
    // Where lines cannot be redrawn not every time is worth one: the 2nd, 4th, 8th, … are.
    bool is_round() const { return (times & (times - 1)) == 0; }
  };
  Told Again(const std::string& cause) {
    const bool is_first = cause != cause_;
    cause_ = cause;
    times_ = is_first ? 1 : times_ + 1;
    return {is_first, times_};
  }
  void Over() { *this = {}; }  // the next time is the first

 private:
  std::string cause_;
  int64_t times_ = 0;
};

}  // namespace muster::cli
