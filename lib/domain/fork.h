// A fork: a job whose state(0) is a committed state of another one, its parent, whether that goes
// on or not (docs/decisions/0103-forks.md). Pure values and functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/domain/job.h"
#include "muster/tensor.h"

namespace muster {

inline bool IsFork(const TrainingSpec& training) { return training.initial.parent.has_value(); }

// What of a fork's specification cannot be, and why.
struct NotForked {
  std::string field;  // its path
  std::string why;    // for people
};

// What the fork may not change of `parent`, the parent's specification, and what it asks for that
// the state of `step` has not. Whether parameters of the task change tensors, only its workers
// know: DifferentTensor tells.
std::optional<NotForked> WhyNotForked(const TrainingSpec& parent, Step step,
                                      const TrainingSpec& fork);

// `fork` with everything known of its beginning: the optimizer's slots come along where its kind is
// the same, and the moving average where both keep one, unless the fork says otherwise.
TrainingSpec ForkedAt(const TrainingSpec& parent, Step step, const std::string& digest,
                      TrainingSpec fork);

// Whether `asked` names the beginning that `held` has: what it leaves out it does not ask for.
bool NamesParent(const ParentState& asked, const ParentState& held);

// Where each slot of the fork comes from, the values first: a slot of the parent's, or -1: zeros.
// `fork` is as ForkedAt gives it.
std::vector<int32_t> SlotsOfParent(const TrainingSpec& parent, const TrainingSpec& fork);

// The tensors that a fork has of its parent: those of the model, without sums, which begin anew,
// and phases.
std::vector<TensorSpec> OfModel(const std::vector<TensorSpec>& tensors);

// The first tensor that is not the same in both, sums apart, for people; empty: all are.
std::string DifferentTensor(const std::vector<TensorSpec>& parent,
                            const std::vector<TensorSpec>& fork);

// "job p, step 40, digest 0123456789ab…": how messages call it.
std::string Describe(const ParentState& parent);

}  // namespace muster
