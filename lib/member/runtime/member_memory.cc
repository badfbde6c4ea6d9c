#include "lib/member/runtime/member_memory.h"

#include <utility>

#include "lib/base/check.h"

namespace muster {

MemberMemory::MemberMemory(std::shared_ptr<FlatPool> pool, Sync sync)
    : sync_(sync), pool_(std::move(pool)) {}

const FlatPtr& MemberMemory::ReceiveBuffer(Step step) {
  const size_t i = Parity(step);
  if (generation_of_[i] != step) {
    // Released first, so that the pool can return the same buffer if nobody reads it.
    generations_[i].reset();
    generations_[i] = pool_->Borrow();
    generation_of_[i] = step;
  }
  return generations_[i];
}

const FlatPtr& MemberMemory::Results(Step step) const {
  MUSTER_CHECK(generation_of_[Parity(step)] == step, "results that are not held");
  return generations_[Parity(step)];
}

const FlatPtr& MemberMemory::Values(Step step) const {
  if (sync_ == Sync::kAllreduce) return values_;
  return Results(step - 1);
}

void MemberMemory::Restart(Step step, StateMemory state) {
  generations_ = {};
  generation_of_ = {};
  slots_ = std::move(state.slots);
  lent_ = false;
  if (sync_ == Sync::kAllreduce) {
    values_ = std::move(state.values);
    return;
  }
  generations_[Parity(step - 1)] = std::move(state.values);
  generation_of_[Parity(step - 1)] = step - 1;
}

void MemberMemory::Applied(Step step, StateMemory state) {
  if (sync_ == Sync::kAllreduce) {
    values_ = std::move(state.values);
    slots_ = std::move(state.slots);
    return;
  }
  MUSTER_CHECK(generation_of_[Parity(step)] == step, "applied without its results");
}

}  // namespace muster
