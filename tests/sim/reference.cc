#include "tests/sim/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_format.h"

namespace muster::sim {

Reference::Reference(const Terms& terms) : terms_(terms) {
  State first;
  first.slots.resize(static_cast<size_t>(terms.slots()));
  for (size_t c = 0; c < static_cast<size_t>(terms.chunks()); ++c) {
    first.values.push_back(terms.Initial(c));
    for (std::vector<Value>& slot : first.slots) slot.push_back(terms.ZeroSlot(c));
  }
  states_.push_back(std::move(first));
}

const Reference::State& Reference::At(Step step) {
  while (states_.size() <= static_cast<size_t>(step.value()) + 1) Advance();
  return states_[static_cast<size_t>(step.value())];
}

Step Reference::End() {
  const Step all(terms_.steps());
  for (Step s(1); s < all; s = s + 1)
    if (const auto measured = terms_.MeasuredIn(At(s).values); measured && measured->learned.enough)
      return s;
  return all;
}

std::string Reference::DigestAt(Step step) {
  const State& state = At(step);
  return DigestOf(terms_, state.values, state.slots);
}

MeasureSums Reference::FactOf(Step measured) {
  const State& state = states_[static_cast<size_t>(measured.value())];
  return terms_.FactOf(terms_.WholeState(state.values), measured);
}

namespace {

Value SumOver(const Terms& terms, size_t chunk, TreeNode node,
              const std::function<Value(LaneId)>& of) {
  if (node.lanes() == 1) return of(LaneId(node.lo));
  const int32_t mid = SplitPoint(node);
  return terms.Sum(chunk, SumOver(terms, chunk, {node.lo, mid}, of),
                   SumOver(terms, chunk, {mid, node.hi}, of));
}

}  // namespace

// Of all phases, by their chunks: those of the order one after the other, and then the others.
std::vector<std::pair<size_t, Value>> Reference::Totals(Value state, Step step) const {
  std::vector<std::pair<size_t, Value>> made;
  const TreeNode root{0, terms_.training().lanes};
  const std::vector<size_t> order = terms_.SyncOrder();
  Value totals = Terms::kNoTotals;
  for (size_t at = 0; at < order.size(); ++at) {
    made.emplace_back(order[at], SumOver(terms_, order[at], root, [&](LaneId lane) {
                        return terms_.Weight(step, lane) == 0
                                   ? Terms::kBringsNothing
                                   : terms_.Brings(state, step, lane, at, totals);
                      }));
    totals = Terms::WithTotal(totals, made.back().second);
  }
  for (size_t c = 0; c < static_cast<size_t>(terms_.chunks()); ++c)
    if (terms_.phase(c) && std::find(order.begin(), order.end(), c) == order.end())
      made.emplace_back(c, SumOver(terms_, c, root, [](LaneId) { return Terms::kBringsNothing; }));
  return made;
}

Reference::Node Reference::Tree(Value state, Step step, TreeNode node, Value totals) const {
  Node made;
  if (node.lanes() == 1) {
    const LaneId lane(node.lo);
    const Value passed = terms_.Weight(step, lane) == 0 ? Terms::kNoTotals : totals;
    for (size_t c = 0; c < static_cast<size_t>(terms_.chunks()); ++c)
      made.sums.push_back(terms_.Gradient(state, step, lane, c, passed));
    made.weight = terms_.Weight(step, lane);
    made.loss = terms_.Loss(step, lane);
    return made;
  }
  const int32_t mid = SplitPoint(node);
  const Node left = Tree(state, step, {node.lo, mid}, totals);
  const Node right = Tree(state, step, {mid, node.hi}, totals);
  for (size_t c = 0; c < left.sums.size(); ++c)
    made.sums.push_back(terms_.Sum(c, left.sums[c], right.sums[c]));
  made.weight = left.weight + right.weight;
  made.loss = left.loss + right.loss;
  return made;
}

void Reference::Advance() {
  State& now = states_.back();
  const Step step(static_cast<int64_t>(states_.size()) - 1);
  const Value state = terms_.WholeState(now.values);
  const auto phases = Totals(state, step);
  Value totals = Terms::kNoTotals;
  for (size_t at = 0; at < terms_.SyncOrder().size(); ++at)
    totals = Terms::WithTotal(totals, phases[at].second);
  Node root = Tree(state, step, {0, terms_.training().lanes}, totals);
  now.sums = std::move(root.sums);
  for (const auto& [chunk, total] : phases) now.sums[chunk] = total;
  const std::optional<Step> brought = BroughtIn(terms_.training(), terms_.samples(), step);
  for (size_t c = 0; c < now.sums.size(); ++c)
    if (brought && terms_.sum(c) && terms_.training().validation.by_follower())
      now.sums[c] = Terms::WithFact(now.sums[c], FactOf(*brought));
  now.weight = root.weight;
  now.loss = root.loss;
  double squares = 0;
  for (size_t c = 0; c < now.sums.size(); ++c) squares += terms_.SquareOf(c, now.sums[c]);
  now.norm = std::sqrt(squares);
  if (terms_.Skips(step)) {
    State same;
    same.values = now.values;
    same.slots = now.slots;
    states_.push_back(std::move(same));
    return;
  }
  State next;
  next.slots.resize(now.slots.size());
  for (size_t c = 0; c < now.values.size(); ++c) {
    next.values.push_back(
        terms_.NewValue(step, c, now.values[c], SlotsOf(now.slots, c), now.sums[c], now.norm));
    for (size_t s = 0; s < now.slots.size(); ++s)
      next.slots[s].push_back(terms_.NewSlot(s, now.slots[s][c], now.sums[c], now.norm));
  }
  states_.push_back(std::move(next));
}

std::string DigestOf(const Terms& terms, const std::vector<Value>& values,
                     const SlotValues& slots) {
  Value digest = terms.WholeState(values);
  for (const std::vector<Value>& slot : slots)
    for (size_t c = 0; c < slot.size(); ++c)
      if (terms.parameter(c)) digest = Mix64(digest, slot[c]);
  return absl::StrFormat("%016x", digest);
}

}  // namespace muster::sim
