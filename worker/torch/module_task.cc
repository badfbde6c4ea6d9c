#include "muster/torch/module_task.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/numerics.h"
#include "worker/torch/row_of_batch.h"
#include "worker/torch/sync_layers.h"

namespace muster::torch {
namespace {

// The same one however often: what a module draws for itself, and neither parameter nor buffer,
// must not depend on the lane that is on its way. First weights may depend on the number of
// threads, too.
std::shared_ptr<::torch::nn::Module> MakeModule(
    const std::function<std::shared_ptr<::torch::nn::Module>()>& make, int32_t threads) {
  if (const absl::Status ready = worker::UseTorchHere(threads); !ready.ok()) throw TaskError(ready);
  worker::SeedTorch(0);
  return make();
}

// This thread is in that of a lane that may wait in it for others, which have modules of their own.
thread_local bool in_forward_pass = false;

class InForwardPass {
 public:
  explicit InForwardPass(bool syncs) { in_forward_pass = syncs; }
  ~InForwardPass() { in_forward_pass = false; }
  InForwardPass(const InForwardPass&) = delete;
  InForwardPass& operator=(const InForwardPass&) = delete;
};

at::Tensor IdsOf(absl::Span<const uint64_t> samples) {
  at::Tensor ids = at::empty({static_cast<int64_t>(samples.size())}, at::kLong);
  std::copy(samples.begin(), samples.end(),  // lint: not tensor bytes (sample ids)
            ids.mutable_data_ptr<int64_t>());
  return ids;
}

bool AllAreLeftOut(const Tensors& batch) {
  return !batch.empty() && batch[0].dim() > 0 && batch[0].size(0) == 0;
}

// A module with its place in the flat space.
struct Net {
  Net(std::shared_ptr<::torch::nn::Module> made, int32_t threads, CopyCounter& copied)
      : module(std::move(made)), flat(module, threads, copied) {}

  const std::shared_ptr<::torch::nn::Module> module;
  worker::FlatModule flat;
};

}  // namespace

void Seed(uint64_t seed, uint64_t use) { worker::SeedTorch(Mix64(seed, use)); }

struct AnyModuleTask::Parts {
  Parts(const TaskOptions& options, std::function<std::shared_ptr<::torch::nn::Module>()> the_make)
      : make(std::move(the_make)),
        threads(options.threads),
        first(MakeModule(make, threads), threads, copied) {
    if (options.sync_batch_norm) phases = SyncLayers::Place(*first.module);
    idle.push_back(&first);
  }

  // One that no lane is in the midst of.
  absl::StatusOr<Net*> Take() {
    if (idle.empty()) MUSTER_RETURN_IF_ERROR(MakeOther());
    Net* const net = idle.back();
    idle.pop_back();
    return net;
  }

  absl::Status MakeOther() {
    absl::Status bound;
    MUSTER_RETURN_IF_ERROR(worker::CatchTorch([&] {
      others.push_back(std::make_unique<Net>(MakeModule(make, threads), threads, copied));
      SyncLayers::Place(*others.back()->module);
      bound = others.back()->flat.Bind(first.flat.space());
    }));
    if (!bound.ok())
      return absl::FailedPreconditionError(absl::StrCat(
          "the module has other tensors when it is made again; it must have the same (",
          bound.message(), ")"));
    idle.push_back(others.back().get());
    return absl::OkStatus();
  }

  const std::function<std::shared_ptr<::torch::nn::Module>()> make;
  const int32_t threads;
  CopyCounter copied{0};
  Net first;
  std::vector<TensorSpec> phases;
  std::vector<std::unique_ptr<Net>> others;  // for lanes that wait for each other
  std::vector<Net*> idle;
};

AnyModuleTask::AnyModuleTask(const TaskOptions& options,
                             std::function<std::shared_ptr<::torch::nn::Module>()> make)
    : parts_(std::make_unique<Parts>(options, std::move(make))) {}

AnyModuleTask::~AnyModuleTask() = default;

const std::shared_ptr<::torch::nn::Module>& AnyModuleTask::made() const {
  return parts_->first.module;
}

// By a lane that happens to have made(), too: so a task fails with its first lane, and not with the
// first that waits for another.
void AnyModuleTask::CheckNetIsMeant() const {
  if (!in_forward_pass) return;
  throw TaskError(absl::FailedPreconditionError(
      "sync_batch_norm: Loss calls net(), which may be the net of another lane; let it use the net "
      "that it is given, or leave sync_batch_norm out"));
}

std::vector<TensorSpec> AnyModuleTask::Tensors() const { return parts_->first.flat.tensors(); }

std::vector<TensorSpec> AnyModuleTask::Phases() const { return parts_->phases; }

Syncs* AnyModuleTask::syncs() { return parts_->phases.empty() ? nullptr : this; }

absl::Status AnyModuleTask::Bind(const FlatSpace& space) {
  parts_->others.clear();
  parts_->idle = {&parts_->first};
  return parts_->first.flat.Bind(space);
}

absl::Status AnyModuleTask::Initialize(uint64_t seed, absl::Span<float> parameters) {
  absl::Status stored;
  MUSTER_RETURN_IF_ERROR(worker::CatchTorch([&] {
    worker::SeedTorch(seed);
    stored = parts_->first.flat.Store(*parts_->make(), parameters);
  }));
  return stored;
}

absl::Status AnyModuleTask::WithState(absl::Span<const float> parameters,
                                      const std::function<void()>& work) {
  return parts_->first.flat.Evaluate(parameters, work);
}

LaneBatch AnyModuleTask::BatchOf(const LaneInput&, const at::Tensor& samples) {
  return {MakeBatch(samples)};
}

absl::StatusOr<LaneOutput> AnyModuleTask::RunLane(const LaneInput& input, GradientSink sink) {
  MUSTER_RETURN_IF_ERROR(CheckLane(input, sink, parts_->first.flat.space(), SampleCount()));
  const at::Tensor samples = IdsOf(input.samples);
  LaneBatch batch;
  MUSTER_ASSIGN_OR_RETURN(Net* const net, parts_->Take());
  const LaneHere here(input);
  absl::StatusOr<LaneOutput> output =
      net->flat.Run(input, sink,
                    {.make_batch = [&] { batch = BatchOf(input, samples); },
                     .weight = [&] { return WeightOf(batch.tensors); },
                     .loss =
                         [&] {
                           const InForwardPass forward(!parts_->phases.empty());
                           return LossOf(net->module, batch.tensors);
                         },
                     .left_out = [&] { return batch.left_out; }});
  parts_->idle.push_back(net);
  if (!output.ok()) return WithSample(output.status(), input.samples, batch.left_out);
  return output;
}

absl::Status AnyModuleTask::WithSample(const absl::Status& status,
                                       absl::Span<const uint64_t> samples,
                                       absl::Span<const uint32_t> left_out) const {
  const std::optional<uint64_t> sample = worker::SampleOf(status, samples, left_out);
  if (!sample) return status;
  const std::string place = PlaceOf(*sample);
  return Prefix(absl::StrCat("sample ", *sample, place.empty() ? "" : ": ", place), status);
}

absl::StatusOr<std::vector<TaskMetricSum>> AnyModuleTask::Evaluate(
    absl::Span<const uint64_t> samples, absl::Span<const float> parameters) {
  MUSTER_RETURN_IF_ERROR(CheckSamples(samples, SampleCount()));
  std::vector<TaskMetricSum> sums(Metrics().size());
  const absl::Status measured = parts_->first.flat.Evaluate(parameters, [&] {
    const Batch batch = MakeBatch(IdsOf(samples));
    if (!AllAreLeftOut(batch)) sums = MeasureOf(batch);
  });
  MUSTER_RETURN_IF_ERROR(WithSample(measured, samples, {}));
  return sums;
}

}  // namespace muster::torch
