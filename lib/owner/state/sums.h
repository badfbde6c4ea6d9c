// What an owner of chunks still waits for in one step, and which additions each arrival allows.
// Decides only: the memory that is added is lib/owner/runtime's. Single-threaded. Lives as long as
// a step in one view; in the next view, sums that are not complete begin anew.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/lanes.h"
#include "lib/domain/message.h"
#include "lib/domain/view.h"

namespace muster {

// value(into) = value(left) + value(right), in this order. The parts are not needed afterwards.
struct Fold {
  TreeNode left;
  TreeNode right;
  TreeNode into;  // canonical order: their parent; free order: the name of the left one stands for
                  // the growing sum
  bool operator==(const Fold&) const = default;
};

// What the arrival of a chunk's partials leads to: the additions, in order; nodes of the arrival
// that are in no fold are kept until their sibling comes. `total` is there when the chunk is
// complete: weight and loss of the root.
struct Additions {
  std::vector<Fold> folds;
  std::optional<Partial> total;
};

class Sums {
 public:
  Sums() = default;
  // `map`: who computes which lane of the step. `kinds`: of every chunk of the layout.
  Sums(int32_t lanes, const LaneMap& map, std::vector<TensorKind> kinds, SumOrder order);

  // The subtrees that `sender` sends of a chunk of this kind; empty: it sends nothing.
  std::vector<TreeNode> Expected(int32_t sender, TensorKind kind) const;
  bool HasFrom(int32_t sender, ChunkId chunk) const;
  // kAlreadyExists: a repetition. kInvalidArgument: not what the sender was to send.
  absl::Status Check(int32_t sender, const ChunkPartials& arrival) const;
  // Of what Check refuses nothing is taken.
  absl::StatusOr<Additions> Add(int32_t sender, const ChunkPartials& arrival);

 private:
  struct Progress {
    std::set<int32_t> from;
    std::map<TreeNode, Partial> waiting;
    int32_t lanes_in = 0;  // free order: lanes in the growing sum
  };
  void Place(Progress& chunk, TreeNode root, Partial arrived, Additions& additions) const;
  void PlaceAnywhere(Progress& chunk, TreeNode root, Partial arrived, Additions& additions) const;

  int32_t lanes_ = 0;
  LaneMap map_;
  std::vector<TensorKind> kinds_;
  SumOrder order_ = SumOrder::kCanonical;
  std::map<ChunkId, Progress> chunks_;
};

}  // namespace muster
