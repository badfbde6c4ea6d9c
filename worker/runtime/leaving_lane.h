// Follows the last lane of a compute: as soon as every tensor of a bucket, and of all buckets
// before it, is final, folds the bucket's chunks into the tree and tells the exchange thread, which
// sends them while backward goes on. Lives as long as that lane runs; on the thread that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/base/failpoint.h"
#include "lib/domain/layout.h"
#include "lib/member/runtime/events.h"
#include "muster/task.h"
#include "worker/runtime/gradient_tree.h"

namespace muster::worker {

// What gradients pass on their way out. All of it outlives the lane.
struct GradientWay {
  const Layout* layout = nullptr;
  const std::vector<std::vector<ChunkId>>* buckets = nullptr;
  GradientTree* tree = nullptr;
  EventBox* events = nullptr;
  Failpoints* failpoints = nullptr;
  std::function<void()> goes_on;  // called at each tensor
};

class LeavingLane {
 public:
  // `compute`: its id. `gradient`: of the lane, from GradientTree::NewLeaf.
  LeavingLane(const GradientWay& way, int64_t compute, LaneId lane, FlatPtr gradient);

  GradientSink Sink() {
    return {gradient_->all(), [this](LaneOutput o) { Outcome(o); },
            [this](size_t tensor) { Final(tensor); }};
  }
  void Outcome(const LaneOutput& output);
  void Final(size_t tensor);

 private:
  bool Full(const std::vector<ChunkId>& bucket) const;
  void Leave();

  const GradientWay& way_;
  const int64_t compute_;
  const LaneId lane_;
  const FlatPtr gradient_;
  std::vector<std::vector<size_t>> chunks_of_;  // by tensor
  std::vector<size_t> open_tensors_;            // by chunk: its tensors that are not final
  size_t next_ = 0;                             // bucket
};

}  // namespace muster::worker
