// Losses by name, and a task that is a module alone: the job says which loss it has, the data set's
// last field is the label, and the others go into the module.
//
//   struct Mlp final : muster::torch::NamedLossTask<Net> {
//     explicit Mlp(const muster::TaskOptions& options)
//         : NamedLossTask(options, [=](const muster::DataSet& data) {
//             return Net(data.Fields()[0].shape[0], options.Integer("hidden"));
//           }) {}
//     at::Tensor Output(Net& net, const Tensors& inputs) override { return net(inputs[0]); }
//   };
//
//   MUSTER_PLUGIN(muster::TypeOf<Mlp>(
//       {.name = "mlp", .parameters = muster::WithLossParameters({...}), .data_needed = true}))
#pragma once

#include <ATen/ops/arange.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/loss_parameters.h"
#include "muster/torch/module_task.h"

namespace muster::torch {

// A loss as torch.nn.functional has it under that name, summed. Labels of cross_entropy and nll are
// numbers of classes, which stand in the output's second dimension; one of -100 is left out. Those
// of the others have the output's shape, where dimensions of 1 do not count. Holds no state; any
// thread.
class NamedLoss {
 public:
  // Of the parameters that WithLossParameters declares. Throws TaskError: label_smoothing of
  // another loss than cross_entropy, which gives a share of a label to all classes, and
  // bce_with_logits, which moves it towards one half.
  explicit NamedLoss(const TaskOptions& options);

  // Shapes without the dimension of the samples. kFailedPrecondition: this loss cannot compare
  // them.
  absl::Status Check(absl::Span<const int64_t> output, const DataField& label) const;

  // A scalar: the sum over all that is compared. Throws TaskError: shapes or types that do not fit,
  // or (kDataLoss) a label that is no class.
  at::Tensor Sum(const at::Tensor& output, const at::Tensor& labels) const;
  // How many terms that sum has: labels that are not left out, or numbers. At most 2^20 a sample.
  int64_t Terms(const at::Tensor& labels) const;

  // "loss", as it is trained with, and: of classes "accuracy", "top{K}_accuracy" and "perplexity"
  // (of the loss without label_smoothing), of bce_with_logits "accuracy" and "auc", which has
  // counts of scores (kAuc), of the others "mean_absolute_error".
  std::vector<TaskMetric> Metrics() const;
  std::vector<TaskMetricSum> Measure(const at::Tensor& output, const at::Tensor& labels) const;

  // Runs a forward pass on a few samples without gradients, and checks what it gives. Throws
  // TaskError (kFailedPrecondition): it fails, or this loss cannot compare it with the labels.
  void Try(const std::function<at::Tensor()>& output, const at::Tensor& labels) const;

 private:
  struct Kind;
  struct Pair;
  Pair Fitting(const at::Tensor& output, const at::Tensor& labels) const;

  const Kind* const kind_;
  const double label_smoothing_;
  const double beta_;
  const int64_t top_k_;
};

// Throws TaskError unless the last of several fields is a label.
void CheckHasLabel(const DataSet& set, const DataSpec& data);

template <class Holder>
class NamedLossTask : public DataModuleTask<Holder> {
 public:
  using Tensors = muster::torch::Tensors;

  std::vector<TaskMetric> Metrics() const final { return loss_.Metrics(); }

 protected:
  // `make` as of DataModuleTask.
  template <class Make>
  NamedLossTask(const TaskOptions& options, Make make)
      : DataModuleTask<Holder>(options,
                               [options, make = std::move(make)](const DataSet& set) {
                                 CheckHasLabel(set, options.data);
                                 return make(set);
                               }),
        loss_(options) {}

  // What the module gives for a batch, whose first dimension is that of the samples.
  virtual at::Tensor Output(Holder& net, const Tensors& inputs) = 0;

  // Whether module, data and loss fit, by the first samples. For the constructor of who derives
  // from it; throws TaskError.
  void TryOutput() {
    Tensors batch;
    std::vector<uint64_t> ids;
    const auto samples = static_cast<int64_t>(std::min<uint64_t>(this->data().Samples(), 64));
    // Of the first of them some may be left out.
    for (int64_t first = 0; first < samples && (batch.empty() || batch.back().size(0) == 0);
         first += 2) {
      const int64_t end = std::min(first + 2, samples);
      ids.clear();
      for (int64_t id = first; id < end; ++id) ids.push_back(static_cast<uint64_t>(id));
      batch = this->MakeBatch(at::arange(first, end, at::kLong));
    }
    if (batch.back().size(0) == 0) return;
    this->net()->eval();
    try {
      loss_.Try([&] { return Output(this->net(), InputsOf(batch)); }, batch.back());
    } catch (const TaskError& error) {
      throw TaskError(this->WithSample(error.status(), ids, {}));
    }
  }

  const NamedLoss& loss() const { return loss_; }

 private:
  static Tensors InputsOf(const Tensors& batch) { return {batch.begin(), batch.end() - 1}; }
  at::Tensor Loss(Holder& net, const Tensors& batch) final {
    return loss_.Sum(Output(net, InputsOf(batch)), batch.back());
  }
  int64_t Weight(const Tensors& batch) const final { return loss_.Terms(batch.back()); }
  std::vector<TaskMetricSum> Measure(Holder& net, const Tensors& batch) final {
    return loss_.Measure(Output(net, InputsOf(batch)), batch.back());
  }

  const NamedLoss loss_;
};

}  // namespace muster::torch
