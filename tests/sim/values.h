// Symbolic values: a number that stands for the term of its tree, so that a wrong sum, a wrong
// order or a torn state shows as another number. And the reference: what one undisturbed process
// would compute.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "lib/base/hash.h"
#include "lib/base/ids.h"
#include "lib/domain/lanes.h"

namespace muster::sim {

using Value = uint64_t;
inline constexpr Value kTorn = 0xdeadbeefdeadbeefu;  // memory that is being written

inline Value Initial(int32_t chunk) { return Mix64(1, static_cast<uint64_t>(chunk)); }
inline Value ZeroSlot(int32_t chunk) { return Mix64(2, static_cast<uint64_t>(chunk)); }
inline Value Gradient(Value state, Step step, LaneId lane, int32_t chunk) {
  return Mix64(Mix64(3, state),
               Mix64(static_cast<uint64_t>(step.value()), static_cast<uint64_t>(lane.value())),
               static_cast<uint64_t>(chunk));
}
inline Value Sum(Value left, Value right) { return Mix64(Mix64(4, left), right); }
inline Value WholeState(const std::vector<Value>& chunks) {
  Value v = 5;
  for (Value c : chunks) v = Mix64(v, c);
  return v;
}
// fp64 stand-in for a norm: exact in a double, different for different sums.
inline double SquareOf(Value sum) { return static_cast<double>(Mix64(6, sum) % 1000003); }
inline Value NewValue(Value old, Value slot, Value gradient, double norm) {
  return Mix64(Mix64(7, old, slot), Mix64(gradient, static_cast<uint64_t>(norm * 64)));
}
inline Value NewSlot(Value slot, Value gradient, double norm) {
  return Mix64(Mix64(8, slot), gradient, static_cast<uint64_t>(norm * 64));
}

// state(s), sums and norms of every step, computed once.
class Reference {
 public:
  Reference(int32_t lanes, int32_t chunks, bool clips) : lanes_(lanes), clips_(clips) {
    State first;
    for (int32_t c = 0; c < chunks; ++c) {
      first.values.push_back(Initial(c));
      first.slots.push_back(ZeroSlot(c));
    }
    states_.push_back(first);
  }
  struct State {
    std::vector<Value> values, slots, sums;  // sums: of the step that starts here
    double norm = 0;
  };
  const State& At(Step step) {
    while (states_.size() <= static_cast<size_t>(step.value()) + 1) Advance();
    return states_[static_cast<size_t>(step.value())];
  }

 private:
  Value Tree(Value state, Step step, int32_t chunk, TreeNode node) const {
    if (node.lanes() == 1) return Gradient(state, step, LaneId(node.lo), chunk);
    const int32_t mid = SplitPoint(node);
    return Sum(Tree(state, step, chunk, {node.lo, mid}), Tree(state, step, chunk, {mid, node.hi}));
  }
  void Advance() {
    State& now = states_.back();
    const Step step(static_cast<int64_t>(states_.size()) - 1);
    const Value whole = WholeState(now.values);
    double squares = 0;
    for (size_t c = 0; c < now.values.size(); ++c) {
      now.sums.push_back(Tree(whole, step, static_cast<int32_t>(c), {0, lanes_}));
      squares += SquareOf(now.sums.back());
    }
    if (clips_) now.norm = std::sqrt(squares);
    State next;
    for (size_t c = 0; c < now.values.size(); ++c) {
      next.values.push_back(NewValue(now.values[c], now.slots[c], now.sums[c], now.norm));
      next.slots.push_back(NewSlot(now.slots[c], now.sums[c], now.norm));
    }
    states_.push_back(std::move(next));
  }

  int32_t lanes_;
  bool clips_;
  std::deque<State> states_;  // references stay valid
};

}  // namespace muster::sim
