// How each parameter of a job is updated: what its specification says of all, of groups by name
// (`groups`) and of those of one dimension (`weight_decay_on`), as runs of the flat space. Pure
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"

namespace muster {

struct UpdateRule {
  double learning_rate_factor = 1;
  double weight_decay = 0;
  bool frozen = false;
  bool operator==(const UpdateRule&) const = default;
};

// The elements [begin, end) of the flat space follow one rule.
struct UpdateRun {
  int64_t begin = 0;
  int64_t end = 0;
  UpdateRule rule;
  bool operator==(const UpdateRun&) const = default;
};

// Whether a step needs norms of whole tensors, so that only who has all of a state can apply it:
// LAMB, LARS.
bool IsLayerwise(OptimizerKind kind);

// A whole parameter, for such an optimizer.
struct TensorRule {
  int64_t begin = 0;  // of its elements in the flat space
  int64_t end = 0;
  int64_t next = 0;  // where the next one begins: a hole may lie between
  UpdateRule rule;
  bool adapts = true;  // its rate to its norms: by `weight_decay_on`, as all that decay by it do
  bool operator==(const TensorRule&) const = default;
};

class UpdateRules {
 public:
  UpdateRules() = default;
  // A parameter belongs to the first group whose pattern matches a name of it. kFailedPrecondition,
  // with the field's path: a group to which no parameter belongs.
  static absl::StatusOr<UpdateRules> Make(const TrainingSpec& training, const Layout& layout);

  // Elements of parameters [offset, offset + count), cut where the rule changes, ascending. The
  // holes between two parameters follow the rule of either.
  std::vector<UpdateRun> In(int64_t offset, int64_t count) const;
  // All parameters, ascending.
  const std::vector<TensorRule>& tensors() const { return tensors_; }
  // `values` are those of the flat space from `offset` on. What stands for frozen parameters
  // becomes 0: their gradient counts for nothing.
  void ZeroFrozen(int64_t offset, absl::Span<float> values) const;

 private:
  std::vector<UpdateRun> runs_;  // of all parameters, ascending, without gaps
  std::vector<TensorRule> tensors_;
  bool any_frozen_ = false;
};

// Whether all of `text` is what `pattern` describes: * stands for any bytes or none, ? for one.
// Needs at most pattern.size() · text.size() comparisons.
bool MatchesPattern(absl::string_view pattern, absl::string_view text);

}  // namespace muster
