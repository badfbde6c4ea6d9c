#include "muster/torch/sync_batch_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/sync_layers.h"

namespace muster::torch {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

thread_local const LaneHere* lane_here = nullptr;

// How many elements a channel has, as numbers whose sums over lanes are exact in 32-bit floats.
constexpr int64_t kLimbs = 3, kLimb = 1 << 12;

// All but the channels.
std::vector<int64_t> SummedDimensions(const at::Tensor& x) {
  std::vector<int64_t> summed = {0};
  for (int64_t d = 2; d < x.dim(); ++d) summed.push_back(d);
  return summed;
}

// One value a channel, beside x.
at::Tensor Beside(const at::Tensor& x, const at::Tensor& of_channels) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  return of_channels.view(shape);
}

at::Tensor Floats(const std::vector<double>& values) {
  at::Tensor floats = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::transform(values.begin(), values.end(), floats.mutable_data_ptr<float>(),
                 [](double v) { return static_cast<float>(v); });
  return floats;
}

// Appends each sum, which is fp64, rounded once.
void Append(std::vector<float>& terms, const at::Tensor& sums) {
  const at::Tensor flat = sums.contiguous();
  for (int64_t c = 0; c < flat.numel(); ++c)
    terms.push_back(static_cast<float>(flat.const_data_ptr<double>()[c]));
}

double ElementsIn(absl::Span<const float> limbs) {
  double elements = 0;
  for (size_t l = limbs.size(); l-- > 0;)
    elements = elements * static_cast<double>(kLimb) + static_cast<double>(limbs[l]);
  return elements;
}

// What the step's samples say of each channel.
struct Statistics {
  double elements = 0;  // of a channel
  std::vector<double> mean;
  std::vector<double> variance;
};

// `near` is of the channels: where it is close to the mean, nothing is lost of the variance.
Statistics StatisticsOf(const LaneHere& lane, size_t phase, const at::Tensor& x,
                        const at::Tensor& near) {
  const int64_t channels = x.size(1);
  const std::vector<int64_t> summed = SummedDimensions(x);
  std::vector<float> terms;
  at::Tensor off = x.detach().sub(Beside(x, near)).to(at::kDouble);
  Append(terms, off.sum(summed));
  Append(terms, off.square_().sum(summed));
  int64_t elements = channels == 0 ? 0 : x.numel() / channels;
  for (int64_t l = 0; l < kLimbs; ++l, elements /= kLimb)
    terms.push_back(static_cast<float>(elements % kLimb));
  if (elements > 0)
    throw TaskError(absl::FailedPreconditionError(
        "a lane has more than 2^36 elements a channel in batch norm; take more lanes"));
  const absl::Span<const float> total = lane.Total(phase, terms);
  Statistics all;
  const auto count = static_cast<size_t>(channels);
  all.elements = ElementsIn(total.subspan(2 * count, kLimbs));
  if (!(all.elements > 1))
    throw TaskError(absl::FailedPreconditionError(
        "batch norm needs more than one value a channel of all samples of a step; take a larger "
        "batch"));
  for (size_t c = 0; c < count; ++c) {
    const double from_near = static_cast<double>(total[c]) / all.elements;
    const double squares = static_cast<double>(total[count + c]) / all.elements;
    const double variance = squares - from_near * from_near;
    all.mean.push_back(static_cast<double>(near.const_data_ptr<float>()[c]) + from_near);
    all.variance.push_back(variance < 0 ? 0 : variance);  // one that is no number stays so
  }
  return all;
}

// y = γ·x̂ + β, with the statistics of all lanes, and what follows from it backward.
struct Normalize final : ::torch::autograd::Function<Normalize> {
  static at::Tensor Centered(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale) {
    return x.sub(Beside(x, mean)).mul_(Beside(x, scale));
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const at::Tensor& mean,
                            const at::Tensor& scale, double elements, int64_t phase) {
    context->save_for_backward({x, weight.value_or(at::Tensor()), mean, scale});
    context->saved_data["elements"] = elements;
    context->saved_data["phase"] = phase;
    at::Tensor y = Centered(x, mean, scale);
    if (weight) y.mul_(Beside(x, *weight));
    if (bias) y.add_(Beside(x, *bias));
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3];
    const at::Tensor dy = gradients[0];
    const at::Tensor centered = Centered(x, mean, scale);
    const std::vector<int64_t> summed = SummedDimensions(x);
    at::Tensor wide = dy.to(at::kDouble);
    std::vector<float> terms;
    Append(terms, wide.sum(summed));
    Append(terms, wide.mul_(centered).sum(summed));
    const auto channels = static_cast<size_t>(x.size(1));
    variable_list results(7);
    if (context->needs_input_grad(0))
      results[0] =
          OfInput(dy, centered, weight, scale, terms, context->saved_data["elements"].toDouble(),
                  static_cast<size_t>(context->saved_data["phase"].toInt()));
    // Gradients of lanes are added up, so these are of its own samples.
    if (weight.defined())
      results[1] = Floats({terms.begin() + static_cast<int64_t>(channels), terms.end()});
    if (weight.defined())
      results[2] = Floats({terms.begin(), terms.begin() + static_cast<int64_t>(channels)});
    return results;
  }

  static at::Tensor OfInput(const at::Tensor& dy, const at::Tensor& centered,
                            const at::Tensor& weight, const at::Tensor& scale,
                            const std::vector<float>& terms, double elements, size_t phase) {
    const LaneHere* const lane = LaneHere::Get();
    if (lane == nullptr)
      throw TaskError(absl::InternalError("batch norm goes backward on another thread"));
    const absl::Span<const float> total = lane->Total(phase, terms);
    const size_t channels = total.size() / 2;
    std::vector<double> means;
    for (const float sum : total) means.push_back(static_cast<double>(sum) / elements);
    const at::Tensor shares = Floats(means);
    const auto count = static_cast<int64_t>(channels);
    at::Tensor dx = dy.sub(Beside(dy, shares.narrow(0, 0, count)));
    dx.sub_(centered.mul(Beside(dy, shares.narrow(0, count, count))));
    return dx.mul_(Beside(dy, weight.defined() ? scale.mul(weight) : scale));
  }
};

}  // namespace

// ---- the lane of a thread

LaneHere::LaneHere(const LaneInput& input) : input_(input) { lane_here = this; }
LaneHere::~LaneHere() { lane_here = nullptr; }
const LaneHere* LaneHere::Get() { return lane_here; }

absl::Span<const float> LaneHere::Total(size_t phase, absl::Span<const float> terms) const {
  if (!input_.exchange) return terms;
  const at::Tensor ours = worker::TorchGenerator();
  const absl::StatusOr<absl::Span<const float>> total = input_.exchange(phase, terms);
  worker::SetTorchGenerator(ours);
  if (!total.ok()) throw TaskError(total.status());
  return *total;
}

// ---- the layer

SyncBatchNormImpl::~SyncBatchNormImpl() = default;

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& x) {
  TORCH_CHECK(x.dim() >= 2 && x.dim() <= 5, "SyncBatchNorm takes 2 to 5 dimensions, and got ",
              x.dim());
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& x) {
  if (!phase_ || !is_training() || LaneHere::Get() == nullptr) return BatchNormImplBase::forward(x);
  _check_input_dim(x);
  TORCH_CHECK(x.size(1) == options.num_features(), "SyncBatchNorm has ", options.num_features(),
              " channels, and got ", x.size(1));
  TORCH_CHECK(x.scalar_type() == at::kFloat, "SyncBatchNorm takes 32-bit floats, and got ",
              x.scalar_type());
  return OverAllLanes(x);
}

at::Tensor SyncBatchNormImpl::OverAllLanes(const at::Tensor& x) {
  Statistics all;
  at::Tensor mean, scale;
  {
    const at::NoGradGuard no_grad;
    const bool tracks = options.track_running_stats();
    // One bad step would spoil all that follow, if it were taken from a mean that is no number.
    const at::Tensor near =
        tracks ? at::where(running_mean.isfinite(), running_mean, at::zeros_like(running_mean))
               : at::zeros({options.num_features()}, at::kFloat);
    all = StatisticsOf(*LaneHere::Get(), *phase_, x, near);
    std::vector<double> scales;
    for (const double variance : all.variance)
      scales.push_back(1 / std::sqrt(variance + options.eps()));
    mean = Floats(all.mean);
    scale = Floats(scales);
    if (tracks) {
      num_batches_tracked += 1;
      const double share = options.momentum().has_value() ? *options.momentum()
                                                          : 1 / num_batches_tracked.item<double>();
      auto* const means = running_mean.mutable_data_ptr<float>();
      auto* const variances = running_var.mutable_data_ptr<float>();
      const double unbiased = all.elements / (all.elements - 1);
      for (size_t c = 0; c < all.mean.size(); ++c) {
        means[c] = static_cast<float>((1 - share) * means[c] + share * all.mean[c]);
        variances[c] =
            static_cast<float>((1 - share) * variances[c] + share * unbiased * all.variance[c]);
      }
    }
  }
  std::optional<at::Tensor> scaled, shifted;
  if (options.affine()) {
    scaled = weight;
    shifted = bias;
  }
  return Normalize::apply(x, scaled, shifted, mean, scale, all.elements,
                          static_cast<int64_t>(*phase_ + 1));
}

// ---- the layers of a module

std::vector<TensorSpec> SyncLayers::Place(::torch::nn::Module& module) {
  std::vector<TensorSpec> phases;
  for (const auto& layer : module.named_modules()) {
    if (auto* const norm = layer.value()->as<SyncBatchNormImpl>(); norm != nullptr) {
      norm->phase_ = phases.size();
      const int64_t channels = norm->options.num_features();
      phases.push_back({absl::StrCat("sync/", layer.key(), "/forward"),
                        {2 * channels + kLimbs},
                        TensorKind::kPhase});
      phases.push_back(
          {absl::StrCat("sync/", layer.key(), "/backward"), {2 * channels}, TensorKind::kPhase});
    } else if (layer.value()->as<::torch::nn::BatchNorm1dImpl>() != nullptr ||
               layer.value()->as<::torch::nn::BatchNorm2dImpl>() != nullptr ||
               layer.value()->as<::torch::nn::BatchNorm3dImpl>() != nullptr) {
      throw TaskError(absl::FailedPreconditionError(absl::StrCat(
          "sync_batch_norm: '", layer.key(),
          "' is a BatchNorm of LibTorch, which has the mean and "
          "variance of its lane's samples alone; make it a muster::torch::SyncBatchNorm, or leave "
          "sync_batch_norm out")));
    }
  }
  return phases;
}

}  // namespace muster::torch
