// The parts of checkpoints that a member has copied and that are not on disk yet. Lives as long as
// the member: a new view, or another state, does not end what is being written.
#pragma once

#include <optional>
#include <utility>

#include "lib/member/state/actions.h"

namespace muster {

class CheckpointParts {
 public:
  // One is written and one waits. Each is a copy in memory, so a slow disk may not gather more.
  static constexpr int kMost = 2;

  // True: a part may be copied now. It is under way until End.
  bool Begin() {
    if (under_way_ == kMost) return false;
    ++under_way_;
    return true;
  }
  // There was no room for this one, but nothing changes its state any more: it can be copied later.
  void Postpone(StepBoundary boundary) { postponed_ = std::move(boundary); }
  void ForgetPostponed() { postponed_.reset(); }
  // One is on disk, or it failed. The part that was postponed, if there is one, may Begin now.
  std::optional<StepBoundary> End() {
    if (under_way_ > 0) --under_way_;
    return std::exchange(postponed_, std::nullopt);
  }

 private:
  int under_way_ = 0;
  std::optional<StepBoundary> postponed_;
};

}  // namespace muster
