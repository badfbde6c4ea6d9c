// The partial sums of a worker's own lanes in one step: a forest of canonical tree nodes, each in a
// buffer of the whole flat space. Two nodes are added as soon as both are there, so that k adjacent
// lanes need about log2(k) + 1 buffers. Train thread only.
//
// A sum that was published (it may be on its way to an owner) is never written again: what is added
// to it goes to another buffer. Buffer chunks are not added: the node that holds lane 0 has lane
// 0's.
#pragma once

#include <map>
#include <vector>

#include "lib/domain/lanes.h"
#include "lib/domain/layout.h"
#include "lib/domain/message.h"
#include "lib/member/runtime/flat_pool.h"
#include "lib/wire/tensor_copy.h"

namespace muster::worker {

class GradientTree {
 public:
  // `layout` and `pool` outlive it.
  GradientTree(const Layout& layout, int32_t lanes, FlatPool& pool, CopyCounter& copied)
      : layout_(layout), lanes_(lanes), pool_(pool), copied_(copied) {}

  // Memory for the gradient of one lane, all +0.0.
  FlatPtr NewLeaf() { return pool_.BorrowZeroed(); }
  // The finished gradient of a lane joins: all additions it makes possible are done at once.
  void Add(LaneId lane, FlatPtr gradient, int64_t weight, double loss);

  // The same, in parts, for a lane whose gradient is still growing. Begin says what the nodes will
  // be, with weights and losses; FoldChunk does the additions of a chunk whose gradient is final,
  // and is called once for every chunk before anything but Partials and Sums is.
  void Begin(LaneId lane, FlatPtr gradient, int64_t weight, double loss);
  void FoldChunk(ChunkId chunk);

  // The nodes, ascending, and their buffers. After Begin: what they will be.
  std::vector<Partial> Partials() const;
  std::map<TreeNode, FlatPtr> Sums() const;
  // All nodes become read-only: they are lent to whoever holds their buffers.
  void Publish();
  void Clear();

 private:
  struct Node {
    FlatPtr sum;
    int64_t weight = 0;
    double loss = 0;
    bool published = false;
  };
  struct Addition {
    FlatPtr left, right, to;
  };

  const Layout& layout_;
  const int32_t lanes_;
  FlatPool& pool_;
  CopyCounter& copied_;
  std::map<TreeNode, Node> nodes_;
  std::vector<Addition> additions_;  // of the lane begun, in order
};

}  // namespace muster::worker
