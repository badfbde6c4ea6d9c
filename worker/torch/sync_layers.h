// The layers of a module that sync (muster/torch/sync_batch_norm.h), and the lane that a thread
// runs.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "absl/types/span.h"
#include "muster/task.h"
#include "muster/tensor.h"

namespace muster::torch {

class SyncLayers {
 public:
  // Finds them, in the order of their names, and gives each its two phases, which are numbered from
  // 0 on. Throws TaskError (kFailedPrecondition): a BatchNorm of LibTorch, which would not sync.
  static std::vector<TensorSpec> Place(::torch::nn::Module& module);
};

// While it lives, layers that run on this thread bring their terms to this lane's exchange. One at
// a time on a thread.
class LaneHere {
 public:
  explicit LaneHere(const LaneInput& input);
  ~LaneHere();
  LaneHere(const LaneHere&) = delete;
  LaneHere& operator=(const LaneHere&) = delete;

  // Null: none runs here.
  static const LaneHere* Get();

  // The totals of a phase, for the terms of this lane; they stay as long as the lane runs, and
  // where it is alone as long as its terms. The state of torch's default generator is afterwards
  // as it was, whoever has run meanwhile. Throws TaskError with what the exchange says.
  absl::Span<const float> Total(size_t phase, absl::Span<const float> terms) const;

 private:
  const LaneInput& input_;
};

}  // namespace muster::torch
