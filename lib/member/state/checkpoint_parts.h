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
  static constexpr int64_t kMostCalm = int64_t{1} << 20;

  void TakeFewer() {
    stride_ = std::min(2 * stride_, kMostStride);
    calm_ = std::min(2 * calm_, kMostCalm);
    taken_ = 0;
  }
  // The disk may have become faster. Each time that it had not, this is tried more rarely.
  void TakeMore() {
    if (stride_ > 1) stride_ /= 2;
    taken_ = 0;
  }

  int64_t stride_ = 1;
  int64_t taken_ = 0;  // rounds since the last one that there was no room for
  int64_t calm_ = 8;   // so many are taken before more are tried
  int under_way_ = 0;
  std::optional<StepBoundary> postponed_;
};

}  // namespace muster
