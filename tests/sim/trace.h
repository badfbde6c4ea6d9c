// Keeps what happens under one seed, line by line, and the first invariant that broke.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/schedule.h"

namespace muster::sim {

class Trace {
 public:
  explicit Trace(const Schedule& schedule) : schedule_(schedule) {}

  void Note(const std::string& what) {
    lines_.push_back(absl::StrCat(schedule_.now(), " ms  ", what));
  }
  void Violate(const std::string& invariant) {
    if (!violation_.empty()) return;
    violation_ = invariant;
    Note(absl::StrCat("VIOLATION: ", invariant));
  }
  const std::vector<std::string>& lines() const { return lines_; }
  const std::string& violation() const { return violation_; }  // empty: none

 private:
  const Schedule& schedule_;
  std::vector<std::string> lines_;
  std::string violation_;
};

}  // namespace muster::sim
