// The contract of a model (docs/architecture.md section 1): for one lane, the gradient of the SUM
// of its samples' losses and an integer weight. Spans only; LibTorch stays behind it. A task is
// pure: RunLane depends on (parameters, buffers, sample ids, seed) alone and carries nothing from
// one lane to the next. All methods run on the worker's train thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/layout.h"

namespace muster {

// What a run of one lane is told.
struct LaneInput {
  Step step;
  LaneId lane;
  uint64_t seed = 0;                   // of every random generator the lane uses
  absl::Span<const uint64_t> samples;  // sample ids, never empty: empty lanes are not run
  // Flat space of state(step): parameters and buffers at their offsets.
  absl::Span<const float> parameters;
};

struct LaneOutput {
  // Samples or tokens: what `reduction: mean` divides by. At most kMostSampleWeight of each sample.
  int64_t weight = 0;
  double loss = 0;           // summed over the samples
  double input_seconds = 0;  // of RunLane, spent on making its samples ready; the rest is compute
};

// Where a lane's gradient goes.
struct GradientSink {
  // The flat space; all +0.0 at the start, also in the holes, which stay so. A buffer tensor's new
  // value is written at its offset instead of a gradient.
  absl::Span<float> gradient;
  // Exactly once, when the forward pass is done and before the first `ready`: what RunLane will
  // return.
  std::function<void(LaneOutput)> outcome;
  // A tensor of the layout is final; each exactly once before RunLane returns, in any order, on the
  // calling thread, as early as possible.
  std::function<void(size_t tensor)> ready;
};

class Task {
 public:
  virtual ~Task() = default;
  // Tensors in registration order (the layout reverses them). Fixed for the life of the task.
  virtual std::vector<TensorSpec> Tensors() const = 0;
  virtual uint64_t SampleCount() const = 0;  // size of the data set, at least 1
  virtual std::string DataHash() const = 0;  // of the content, equal on every member
  // What of the data could not be read and is no part of it, for people; empty: nothing. Equal on
  // every member.
  virtual std::string DataLeftOut() const { return ""; }
  // The layout the runtime will use for `parameters` and `gradient` spans. Called once, before
  // anything below.
  virtual absl::Status Bind(const Layout& layout) = 0;
  // Writes state(0) at the tensors' offsets; `parameters` is all +0.0 before.
  virtual absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) = 0;
  // kInvalidArgument or kDataLoss: the data is bad (exit code 65); the message names the file.
  virtual absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) = 0;
};

// A rarer ability: a text sample from a trained model.
class Generates {
 public:
  virtual ~Generates() = default;
  virtual absl::StatusOr<std::string> Generate(absl::Span<const float> parameters,
                                               const std::string& prompt, size_t bytes,
                                               uint64_t seed) = 0;
};

}  // namespace muster
