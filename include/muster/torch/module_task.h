// A task that is a LibTorch module: who derives from it says how the module is made, what a batch
// is and what its loss is. Parameters live in the flat space of the job, gradients go straight into
// it and are told as the backward pass makes them final; nothing is copied. The module is in
// training mode, and torch's default generator is seeded for each lane.
//
//   class Mlp final : public muster::torch::ModuleTask<Net> {
//    public:
//     explicit Mlp(const muster::TaskOptions& options)
//         : ModuleTask(options, [=] { return Net(options.Integer("hidden")); }) {}
//     ...
//     at::Tensor Loss(Net& net, const Tensors& batch) override {
//       return torch::mse_loss(net(batch[0]), batch[1], at::Reduction::Sum);
//     }
//   };
//
// Parameters are 32-bit floats on the processor; buffers may be of any type of muster/tensor.h.
//
// Where the job says sync_batch_norm: true, layers that are a muster::torch::SyncBatchNorm
// (muster/torch/sync_batch_norm.h) have the mean and variance of all samples of a step. Lanes then
// wait for each other in the midst of their passes, each with a module of its own.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/data_set.h"
#include "muster/task.h"
#include "muster/task_options.h"

namespace muster::torch {

using Tensors = std::vector<at::Tensor>;

// Seeds torch's default generator, apart from other uses of the same seed: for a task that draws
// its data. Lanes and first weights are seeded already.
void Seed(uint64_t seed, uint64_t use);

// The samples of a lane, and which of them are left out and in no tensor, since they cannot be read
// (data.on_bad_sample: skip): positions in those that were asked for, ascending.
struct LaneBatch {
  Tensors tensors;
  std::vector<uint32_t> left_out{};
};

// Of any module; derive from ModuleTask below, which knows its type.
class AnyModuleTask : public Task, public Evaluates, public Syncs {
 public:
  ~AnyModuleTask() override;

  std::vector<TensorSpec> Tensors() const final;
  absl::Status Bind(const FlatSpace& space) final;
  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) final;
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) final;
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> parameters) final;

  // Of its layers that sync; empty, unless the job says sync_batch_norm.
  std::vector<TensorSpec> Phases() const final;
  Syncs* syncs() final;

  // What Measure tells; the loss alone, where nothing else is said.
  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }

 protected:
  using Batch = muster::torch::Tensors;

  // Throws what `make` throws, and TaskError where the job says sync_batch_norm and the module has
  // a BatchNorm of LibTorch.
  AnyModuleTask(const TaskOptions& options,
                std::function<std::shared_ptr<::torch::nn::Module>()> make);

  virtual Batch MakeBatch(const at::Tensor& samples) = 0;
  // Of a lane's samples.
  virtual LaneBatch BatchOf(const LaneInput& input, const at::Tensor& samples);
  // `module` is made(), or another that `make` has made, for a lane beside others.
  virtual at::Tensor LossOf(const std::shared_ptr<::torch::nn::Module>& module,
                            const Batch& batch) = 0;
  virtual int64_t WeightOf(const Batch& batch) const = 0;
  virtual std::vector<TaskMetricSum> MeasureOf(const Batch& batch) = 0;
  // Where a sample lies, for people, as DataSet::PlaceOf; empty: that is not known.
  virtual std::string PlaceOf(uint64_t /*sample*/) const { return ""; }

  // An error about one row of a batch of these samples, with that one's number and place; others
  // as they are. Those at the positions `left_out` are in no row.
  absl::Status WithSample(const absl::Status& status, absl::Span<const uint64_t> samples,
                          absl::Span<const uint32_t> left_out) const;

  // Runs `work` with these parameters and buffers, in evaluation mode and without gradients: for
  // whoever is a Generates, too.
  absl::Status WithState(absl::Span<const float> parameters, const std::function<void()>& work);

  const std::shared_ptr<::torch::nn::Module>& made() const;
  // Throws TaskError (kFailedPrecondition) where this thread is in the forward pass of a lane with
  // a module of its own, which made() may not be.
  void CheckNetIsMeant() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// `Holder` is what TORCH_MODULE makes of a module.
template <class Holder>
class ModuleTask : public AnyModuleTask {
 public:
  using Tensors = muster::torch::Tensors;

 protected:
  // `make` makes a Holder with first weights that it draws from torch's default generator, which is
  // seeded before. It is called more than once, with sync_batch_norm for each lane
  // that is held at once, and makes the same tensors each time.
  template <class Make>
  ModuleTask(const TaskOptions& options, Make make)
      : AnyModuleTask(options, [make = std::move(make)] { return make().ptr(); }),
        net_(std::dynamic_pointer_cast<typename Holder::ContainedType>(made())) {}

  // What Loss needs of these samples (ids: int64, one dimension, in any order): at least one
  // tensor, whose first dimension is that of the samples (without those that are left out). Its
  // time counts as input.
  Tensors MakeBatch(const at::Tensor& samples) override = 0;

  // The forward pass: a scalar, the SUM of the samples' losses. `net` is not always net(): where
  // lanes wait for each other (sync_batch_norm), each has its own, and net() is refused here.
  virtual at::Tensor Loss(Holder& net, const Tensors& batch) = 0;

  // What `reduction: mean` divides by: samples, where nothing else is said; or tokens.
  virtual int64_t Weight(const Tensors& batch) const { return batch.at(0).size(0); }

  // One for each of Metrics(), over a batch: in evaluation mode, without gradients.
  virtual std::vector<TaskMetricSum> Measure(Holder& net, const Tensors& batch) {
    return {{Loss(net, batch).template item<double>(), static_cast<double>(Weight(batch))}};
  }

  // Throws TaskError within the Loss of a lane that waits for others.
  Holder& net() {
    CheckNetIsMeant();
    return net_;
  }

 private:
  at::Tensor LossOf(const std::shared_ptr<::torch::nn::Module>& module,
                    const Tensors& batch) final {
    if (module == made()) return Loss(net_, batch);
    Holder net(std::dynamic_pointer_cast<typename Holder::ContainedType>(module));
    return Loss(net, batch);
  }
  int64_t WeightOf(const Tensors& batch) const final { return Weight(batch); }
  std::vector<TaskMetricSum> MeasureOf(const Tensors& batch) final { return Measure(net_, batch); }

  Holder net_;
};

// Batches of a data set (muster/data_set.h), which threads of their own read ahead. Used by one
// thread.
class DataBatches {
 public:
  explicit DataBatches(std::unique_ptr<const DataSet> set,
                       OnBadSample on_bad_sample = OnBadSample::kStop);
  ~DataBatches();

  const DataSet& set() const;
  absl::Status Coming(std::vector<ComingLane> lanes);  // as ReadsAhead
  // A tensor for each field, whose first dimension is that of the samples that are not left out.
  // Throws TaskError.
  LaneBatch Take(int64_t epoch, absl::Span<const uint64_t> samples);

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// A task whose batches come from the job's data set: a tensor for each of its fields. Who derives
// from it says how the module is made and what its loss is.
//
//   struct Mlp final : muster::torch::DataModuleTask<Net> {
//     explicit Mlp(const muster::TaskOptions& options)
//         : DataModuleTask(options, [=](const muster::DataSet& data) {
//             return Net(data.Fields()[0].shape[0], options.Integer("hidden"));
//           }) {}
//     at::Tensor Loss(Net& net, const Tensors& batch) override {
//       return torch::mse_loss(net(batch[0]), batch[1], at::Reduction::Sum);
//     }
//   };
template <class Holder>
class DataModuleTask : public ModuleTask<Holder>, public ReadsAhead {
 public:
  using Tensors = muster::torch::Tensors;

  uint64_t SampleCount() const final { return batches_->set().Samples(); }
  std::string DataHash() const final { return batches_->set().ContentHash(); }
  std::string DataLeftOut() const final { return batches_->set().LeftOut(); }
  absl::Status Coming(std::vector<ComingLane> lanes) final {
    return batches_->Coming(std::move(lanes));
  }

 protected:
  // `make` makes a Holder for a data set; the rest as of ModuleTask. Throws TaskError where the
  // data set cannot be opened.
  template <class Make>
  DataModuleTask(const TaskOptions& options, Make make)
      : DataModuleTask(options, ValueOrThrow(OpenDataSet(options)), std::move(make)) {}
  // Of a data set of one's own.
  template <class Make>
  DataModuleTask(const TaskOptions& options, std::unique_ptr<const DataSet> set, Make make)
      : DataModuleTask(options,
                       std::make_unique<DataBatches>(std::move(set), options.data.on_bad_sample),
                       std::move(make)) {}

  const DataSet& data() const { return batches_->set(); }
  Tensors MakeBatch(const at::Tensor& samples) final {
    const int64_t* ids = samples.data_ptr<int64_t>();
    const std::vector<uint64_t> these(ids, ids + samples.numel());
    return batches_->Take(-1, these).tensors;
  }

 private:
  template <class Make>
  DataModuleTask(const TaskOptions& options, std::unique_ptr<DataBatches> batches, Make make)
      : ModuleTask<Holder>(options,
                           [make = std::move(make), set = &batches->set()] { return make(*set); }),
        batches_(std::move(batches)) {}

  LaneBatch BatchOf(const LaneInput& input, const at::Tensor&) final {
    return batches_->Take(input.epoch, input.samples);
  }
  std::string PlaceOf(uint64_t sample) const final { return batches_->set().PlaceOf(sample); }

  const std::unique_ptr<DataBatches> batches_;
};

}  // namespace muster::torch
