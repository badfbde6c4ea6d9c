// The parts of checkpoints that a member has copied and that are not on disk yet. Lives as long as
// the member: a new view, or another state, does not end what is being written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/member/state/actions.h"

namespace muster {

class CheckpointParts {
 public:
  // One is written and one waits. Each is a copy in memory, so a slow disk may not gather more.
  static constexpr int kMost = 2;

  // True: a part may be copied now. It is under way until End. `round`: the number of the round, of
  // those that come every so many steps. Where the disk is too slow for all of them, only those are
  // taken whose number a power of two divides. So what the slowest member takes others take too,
  // and there are rounds that all take.
  bool Begin(std::optional<int64_t> round) {
    if (round && *round % stride_ != 0) return false;
    if (under_way_ == kMost) {
      if (round) TakeFewer();
      return false;
    }
    if (round && ++taken_ >= calm_) TakeMore();
    ++under_way_;
    return true;
  }
  int64_t stride() const { return stride_; }
  // There was no room for this one, but nothing changes its state any more: it can be copied later.
  void Postpone(StepBoundary boundary) { postponed_ = std::move(boundary); }
  void ForgetPostponed() { postponed_.reset(); }
  // One is on disk, or it failed. The part that was postponed, if there is one, may Begin now.
  std::optional<StepBoundary> End() {
    if (under_way_ > 0) --under_way_;
    return std::exchange(postponed_, std::nullopt);
  }

 private:
  static constexpr int64_t kMostStride = 1024;
  // By then one that was taken meanwhile is on disk, so the disk works.
  static constexpr int64_t kLeastCalm = kMost + 1;
  static constexpr int64_t kMostCalm = 8;

  // How often there was no room tells how long the disk stood still, too, so only a try that fails
  // shows that it is slow, and makes the next try rarer.
  void TakeFewer() {
    if (trying_) calm_ = std::min(2 * calm_, kMostCalm);
    trying_ = false;
    stride_ = std::min(2 * stride_, kMostStride);
    taken_ = 0;
  }
  // The disk may have become faster.
  void TakeMore() {
    if (trying_) calm_ = std::max(calm_ / 2, kLeastCalm);
    trying_ = stride_ > 1;
    if (stride_ > 1) stride_ /= 2;
    taken_ = 0;
  }

  int64_t stride_ = 1;
  int64_t taken_ = 0;          // rounds since the stride is as it is
  int64_t calm_ = kLeastCalm;  // so many are taken before more are tried
  bool trying_ = false;        // more are taken than before, and there was room until now
  int under_way_ = 0;
  std::optional<StepBoundary> postponed_;
};

}  // namespace muster
