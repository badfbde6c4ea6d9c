// Computes what one undisturbed process would compute: every state, sum, norm and loss of a job,
// each once. Lives as long as the job.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/values.h"

namespace muster::sim {

class Reference {
 public:
  explicit Reference(const Terms& terms);

  struct State {
    std::vector<Value> values;
    SlotValues slots;
    // Of the step that starts here:
    std::vector<Value> sums;
    double norm = 0;
    int64_t weight = 0;
    double loss = 0;
  };
  const State& At(Step step);
  std::string DigestAt(Step step);
  // What a follower measures of a state that was computed already.
  MeasureSums FactOf(Step measured);
  // The state that the job is done at: that after all its steps, or the first that is enough.
  Step End();

 private:
  struct Node {
    std::vector<Value> sums;
    int64_t weight = 0;
    double loss = 0;
  };
  Node Tree(Value state, Step step, TreeNode node, Value totals) const;
  std::vector<std::pair<size_t, Value>> Totals(Value state, Step step) const;
  void Advance();

  const Terms& terms_;
  std::deque<State> states_;  // references stay valid
};

// Stands for SHA-256 in the simulation.
std::string DigestOf(const Terms& terms, const std::vector<Value>& values, const SlotValues& slots);

}  // namespace muster::sim
