#include "muster/torch/module_task.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/numerics.h"

namespace muster::torch {
namespace {

// First weights may depend on the number of threads, too.
std::shared_ptr<::torch::nn::Module> MakeFirst(
    const std::function<std::shared_ptr<::torch::nn::Module>()>& make, int32_t threads) {
  if (const absl::Status ready = worker::UseTorchHere(threads); !ready.ok()) throw TaskError(ready);
  return make();
}

at::Tensor IdsOf(absl::Span<const uint64_t> samples) {
  at::Tensor ids = at::empty({static_cast<int64_t>(samples.size())}, at::kLong);
  std::copy(samples.begin(), samples.end(),  // lint: not tensor bytes (sample ids)
            ids.mutable_data_ptr<int64_t>());
  return ids;
}

bool AllAreLeftOut(const Tensors& batch) {
  return !batch.empty() && batch[0].dim() > 0 && batch[0].size(0) == 0;
}

}  // namespace

void Seed(uint64_t seed, uint64_t use) { worker::SeedTorch(Mix64(seed, use)); }

struct AnyModuleTask::Parts {
  Parts(const TaskOptions& options, std::function<std::shared_ptr<::torch::nn::Module>()> the_make)
      : make(std::move(the_make)),
        module(MakeFirst(make, options.threads)),
        flat(module, options.threads, copied) {}

  const std::function<std::shared_ptr<::torch::nn::Module>()> make;
  const std::shared_ptr<::torch::nn::Module> module;
  CopyCounter copied{0};
  worker::FlatModule flat;
};

AnyModuleTask::AnyModuleTask(const TaskOptions& options,
                             std::function<std::shared_ptr<::torch::nn::Module>()> make)
    : parts_(std::make_unique<Parts>(options, std::move(make))) {}

AnyModuleTask::~AnyModuleTask() = default;

const std::shared_ptr<::torch::nn::Module>& AnyModuleTask::made() const { return parts_->module; }

std::vector<TensorSpec> AnyModuleTask::Tensors() const { return parts_->flat.tensors(); }

absl::Status AnyModuleTask::Bind(const FlatSpace& space) { return parts_->flat.Bind(space); }

absl::Status AnyModuleTask::Initialize(uint64_t seed, absl::Span<float> parameters) {
  absl::Status stored;
  MUSTER_RETURN_IF_ERROR(worker::CatchTorch([&] {
    worker::SeedTorch(seed);
    stored = parts_->flat.Store(*parts_->make(), parameters);
  }));
  return stored;
}

absl::Status AnyModuleTask::WithState(absl::Span<const float> parameters,
                                      const std::function<void()>& work) {
  return parts_->flat.Evaluate(parameters, work);
}

LaneBatch AnyModuleTask::BatchOf(const LaneInput&, const at::Tensor& samples) {
  return {MakeBatch(samples)};
}

absl::StatusOr<LaneOutput> AnyModuleTask::RunLane(const LaneInput& input, GradientSink sink) {
  MUSTER_RETURN_IF_ERROR(CheckLane(input, sink, parts_->flat.space(), SampleCount()));
  const at::Tensor samples = IdsOf(input.samples);
  LaneBatch batch;
  return parts_->flat.Run(input, sink,
                          {.make_batch = [&] { batch = BatchOf(input, samples); },
                           .weight = [&] { return WeightOf(batch.tensors); },
                           .loss = [&] { return LossOf(batch.tensors); },
                           .left_out = [&] { return batch.left_out; }});
}

absl::StatusOr<std::vector<TaskMetricSum>> AnyModuleTask::Evaluate(
    absl::Span<const uint64_t> samples, absl::Span<const float> parameters) {
  MUSTER_RETURN_IF_ERROR(CheckSamples(samples, SampleCount()));
  std::vector<TaskMetricSum> sums(Metrics().size());
  MUSTER_RETURN_IF_ERROR(parts_->flat.Evaluate(parameters, [&] {
    const Batch batch = MakeBatch(IdsOf(samples));
    if (!AllAreLeftOut(batch)) sums = MeasureOf(batch);
  }));
  return sums;
}

}  // namespace muster::torch
