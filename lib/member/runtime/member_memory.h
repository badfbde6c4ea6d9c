// The states and results a member holds, by step. Exchange thread only.
//
// What may be written when. `sync: allreduce`: results of step s are stored in one of two
// receive buffers, by parity of s; parameters and slots are one generation, written only by the
// train thread in Apply, between DoApply and StateApplied. `sync: server`: results of step s are
// the new values, that is state(s+1): they are stored in a generation of their own, by parity of s,
// while lanes of step s still read the other one; applying is nothing but going on with it. The
// buffer of step s takes the place of that of s-2. Nobody needs that one: a lane-holding peer's
// contribution to s-1, without which s could not be open, proves that it held all of s-2. Where
// there is no such proof (a frame to somebody who is gone, a lane that was given up) the old buffer
// lives on until its holders let go, and another one is taken from the pool.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "lib/domain/job.h"
#include "lib/member/runtime/flat_pool.h"
#include "lib/member/runtime/state_memory.h"

namespace muster {

class MemberMemory {
 public:
  MemberMemory(std::shared_ptr<FlatPool> pool, Sync sync);

  FlatPool& pool() { return *pool_; }

  // The receive buffer for the results of `step`, the open one: fresh at its first use.
  const FlatPtr& ReceiveBuffer(Step step);
  // Results of `step`, held since; they stay unchanged.
  const FlatPtr& Results(Step step) const;
  // state(step)'s values: `step` is where the member is, or (servers, before results of the open
  // step are written) the one before.
  const FlatPtr& Values(Step step) const;
  const FlatPtr& Slot(int slot) const { return slots_[static_cast<size_t>(slot)]; }
  const std::vector<FlatPtr>& slots() const { return slots_; }
  StateMemory State(Step step) const { return {Values(step), slots_}; }

  // Everything before is void; the member is at `step` with this state.
  void Restart(Step step, StateMemory state);
  // The train thread's answer: where state(step + 1) is.
  void Applied(Step step, StateMemory state);

  // A frame was made that reads state memory.
  void Lend() { lent_ = true; }
  // Whether that happened since this was last asked.
  bool ClearLent() { return std::exchange(lent_, false); }

 private:
  static size_t Parity(Step step) { return static_cast<size_t>(step.value() & 1); }

  const Sync sync_;
  const std::shared_ptr<FlatPool> pool_;
  std::array<FlatPtr, 2> generations_;                // results, by parity of their step
  std::array<std::optional<Step>, 2> generation_of_;  // which step's
  FlatPtr values_;                                    // allreduce
  std::vector<FlatPtr> slots_;
  bool lent_ = false;
};

}  // namespace muster
