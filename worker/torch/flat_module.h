// A torch module that lives in a flat space: its parameters are views of whatever span a lane
// brings, its gradients accumulate straight into the lane's sink, and autograd's hooks announce
// them. Nothing is copied but buffers, once into the module and once out of it; that is counted.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/wire/tensor_copy.h"
#include "muster/task.h"

namespace muster::worker {

// Runs `f` and translates what LibTorch throws: out of memory to kResourceExhausted, the rest to
// kInternal. A TaskError is the status that it holds.
absl::Status CatchTorch(const std::function<void()>& f);

// Seeds the generator that torch's random operators on this machine's processor draw from.
void SeedTorch(uint64_t seed);

// The state of that generator, for whoever lets others draw from it in between.
at::Tensor TorchGenerator();
void SetTorchGenerator(const at::Tensor& state);

// What LibTorch calls an element of that type.
at::ScalarType TorchTypeOf(TensorType type);

// What a lane does, as far as it differs from model to model.
struct LaneWork {
  std::function<void()> make_batch;  // counts as input
  std::function<int64_t()> weight;   // after that
  std::function<at::Tensor()> loss;  // forward, in training mode: a scalar
  // Those that the batch is without, as LaneOutput::left_out; where it is without all of them, the
  // others are not asked for. Null: none.
  std::function<std::vector<uint32_t>()> left_out{};
};

// Used by one thread. Between lanes the module's parameters point at the last span and must not be
// touched.
class FlatModule {
 public:
  // `threads`: intra-op, see UseTorchHere. `copied` outlives the module.
  FlatModule(std::shared_ptr<::torch::nn::Module> module, int32_t threads, CopyCounter& copied);
  ~FlatModule();
  FlatModule(const FlatModule&) = delete;
  FlatModule& operator=(const FlatModule&) = delete;

  // named_parameters() that need a gradient, in registration order; then those that need none,
  // which are as buffers that no lane changes: nothing updates them, and no weight decay; then
  // named_buffers(). A tensor that is there under several names is one, with the first for a name
  // and the others beside it. What the module says when it is made counts.
  const std::vector<TensorSpec>& tensors() const { return specs_; }
  const FlatSpace& space() const { return space_; }

  // kInvalidArgument: places of others than tensors(). kFailedPrecondition: a tensor that is not on
  // the CPU, or of a type that the flat space does not hold.
  absl::Status Bind(const FlatSpace& space);

  // Writes the values of `source`, a module of the same make, at the tensors' offsets.
  // kFailedPrecondition: it has other tensors.
  absl::Status Store(const ::torch::nn::Module& source, absl::Span<float> flat) const;

  // Points the parameters at `parameters` (the whole flat space, 64-byte aligned, which outlives
  // their use) and fills the buffers from it.
  absl::Status Attach(absl::Span<const float> parameters);

  // One lane: attach, the batch, seed, loss, backward. Calls sink.outcome before the latter, then
  // sink.ready as gradients become final, then for tensors without a gradient, then for buffers,
  // which stay as they are where no sample is left. Spans are 64-byte aligned.
  absl::StatusOr<LaneOutput> Run(const LaneInput& input, GradientSink& sink, const LaneWork& work);

  // Attaches and runs `work` in evaluation mode without gradients.
  absl::Status Evaluate(absl::Span<const float> parameters, const std::function<void()>& work);

  // Gradients that autograd put elsewhere and that were copied; 0 means that all accumulated in
  // place.
  int64_t copied_gradients() const { return copied_gradients_; }

 private:
  // Views of one memory at every parameter's place. They hold an address only: one of freed memory
  // is harmless.
  struct Views {
    const float* base = nullptr;
    std::vector<at::Tensor> tensors;
  };
  struct Hook;

  const Views& ViewsOf(const float* base, std::vector<Views>& cache);
  void Finish(size_t parameter);  // its gradient is final
  absl::Status CheckBuffer(size_t buffer) const;
  absl::Status FinishBuffers(absl::Span<float> gradient);
  float* Place(size_t tensor, float* base) const { return base + space_.tensors[tensor].offset; }
  // The place of a tensor in a flat space of parameters or gradients.
  template <class Float>
  absl::Span<Float> Within(absl::Span<Float> flat, size_t tensor) const {
    const Placed& placed = space_.tensors[tensor];
    return flat.subspan(static_cast<size_t>(placed.offset), static_cast<size_t>(placed.count));
  }

  const std::shared_ptr<::torch::nn::Module> module_;
  const int32_t threads_;
  CopyCounter& copied_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<TensorSpec> specs_;
  FlatSpace space_;
  std::vector<Views> parameter_views_;  // of the generations of state that alternate
  std::vector<Views> gradient_views_;
  GradientSink* sink_ = nullptr;  // of the lane that runs
  std::vector<bool> announced_;
  int64_t copied_gradients_ = 0;
};

}  // namespace muster::worker
