// Batch norm with the mean and variance of all samples of a step, over all its lanes, forward and
// backward, where the job says sync_batch_norm: true. Where it does not, in evaluation mode and
// outside of lanes it is LibTorch's BatchNorm, with the same bits; its tensors have the same names
// in every case, so whoever has BatchNorm1d, 2d or 3d in a module puts this in its place.
//
//   muster::torch::SyncBatchNorm norm{nullptr};
//   norm = register_module("norm", muster::torch::SyncBatchNorm(channels));
//
// A lane calls each such layer once, all lanes in the same order, whatever their samples.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <cstddef>
#include <optional>

namespace muster::torch {

class SyncLayers;

// Takes 2 to 5 dimensions, channels second; where the job syncs, of 32-bit floats.
class SyncBatchNormImpl final : public ::torch::nn::BatchNormImplBase<0, SyncBatchNormImpl> {
 public:
  // A number of channels, or options as BatchNorm2d has them.
  explicit SyncBatchNormImpl(const ::torch::nn::BatchNormOptions& of) : BatchNormImplBase(of) {}
  ~SyncBatchNormImpl() override;

  at::Tensor forward(const at::Tensor& x);

 protected:
  void _check_input_dim(const at::Tensor& x) override;

 private:
  friend class SyncLayers;
  at::Tensor OverAllLanes(const at::Tensor& x);

  std::optional<size_t> phase_;  // of its forward pass, and the next is of backward; none: alone
};

// What TORCH_MODULE would make of it outside of namespaces that are called torch.
class SyncBatchNorm : public ::torch::nn::ModuleHolder<SyncBatchNormImpl> {
 public:
  using ::torch::nn::ModuleHolder<SyncBatchNormImpl>::ModuleHolder;
  using Impl [[maybe_unused]] = SyncBatchNormImpl;
};

}  // namespace muster::torch
