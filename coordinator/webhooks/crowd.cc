#include "coordinator/webhooks/crowd.h"

#include <algorithm>

namespace muster::coordinator {

void Crowd::Add(const PlacedEvent& placed) {
  const size_t job = jobs_.try_emplace(placed.event.job, many_of_.size()).first->second;
  if (job == many_of_.size()) many_of_.push_back(0);
  ++many_of_[job];
  waiting_.push_back({placed.place, job, TellsOfAnEnd(placed.event)});
}

// The most for each job with which at least `many` go.
size_t Crowd::JobsMayHave(size_t many) const {
  const auto go = [&](size_t may_have) {
    size_t sum = 0;
    for (const size_t has : many_of_) sum += has - std::min(has, may_have);
    return sum;
  };
  size_t low = 0, high = waiting_.size();
  while (low < high) {
    const size_t middle = low + (high - low + 1) / 2;
    if (go(middle) >= many)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::vector<OutboxPlace> Crowd::Surplus(size_t many) const {
  many = std::min(many, waiting_.size());
  const size_t may_have = JobsMayHave(many);
  std::vector<size_t> go;  // by job
  for (const size_t has : many_of_) go.push_back(has - std::min(has, may_have));
  std::vector<OutboxPlace> surplus;
  for (const bool are_ends : {false, true}) {
    for (const Waiting& one : waiting_) {
      if (surplus.size() == many) return surplus;
      if (one.is_end != are_ends || go[one.job] == 0) continue;
      --go[one.job];
      surplus.push_back(one.place);
    }
  }
  return surplus;
}

}  // namespace muster::coordinator
