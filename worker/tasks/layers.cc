#include "worker/tasks/layers.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/memory_cgroup.h"
#include "lib/domain/layout.h"
#include "muster/torch/named_loss.h"
#include "muster/torch/sync_batch_norm.h"
#include "worker/tasks/layer_list.h"

namespace muster::worker {
namespace {

using Step = std::function<at::Tensor(const at::Tensor&)>;

// Layers one after the other.
class ListNet : public ::torch::nn::Module {
 public:
  explicit ListNet(const std::vector<Layer>& layers) {
    for (size_t i = 0; i < layers.size(); ++i) steps_.push_back(StepOf(layers[i], absl::StrCat(i)));
  }

  at::Tensor forward(at::Tensor x) {
    for (const Step& step : steps_) x = step(x);
    return x;
  }

 private:
  Step StepOf(const Layer& layer, const std::string& name);
  Step ActivationOf(const Layer& layer) const;
  Step PoolOf(const Layer& layer) const;
  Step BatchNormOf(const Layer& layer, const std::string& name);
  Step ConvolutionOf(const Layer& layer, const std::string& name);
  Step ResidualOf(const Layer& layer, const std::string& name);
  Step ParallelOf(const Layer& layer, const std::string& name);

  // A step that is a module of LibTorch.
  template <class Holder>
  Step Registered(const std::string& name, Holder holder) {
    register_module(name, holder);
    return [holder](const at::Tensor& x) mutable { return holder->forward(x); };
  }

  std::vector<Step> steps_;
};

Step ListNet::ActivationOf(const Layer& layer) const {
  static const auto& activations = *new std::map<std::string, at::Tensor (*)(const at::Tensor&)>{
      {"relu", [](const at::Tensor& x) { return x.relu(); }},
      {"elu", [](const at::Tensor& x) { return at::elu(x); }},
      {"gelu", [](const at::Tensor& x) { return at::gelu(x); }},
      {"silu", [](const at::Tensor& x) { return at::silu(x); }},
      {"sigmoid", [](const at::Tensor& x) { return x.sigmoid(); }},
      {"softplus", [](const at::Tensor& x) { return at::softplus(x); }},
      {"tanh", [](const at::Tensor& x) { return x.tanh(); }}};
  if (layer.name != "leaky_relu") return activations.at(layer.name);
  return
      [slope = layer.numbers.at("slope")](const at::Tensor& x) { return at::leaky_relu(x, slope); };
}

Step ListNet::PoolOf(const Layer& layer) const {
  const int64_t size = layer.Whole("size"), padding = layer.Whole("padding");
  const int64_t stride = layer.Whole("stride") == 0 ? size : layer.Whole("stride");
  if (layer.kind == LayerKind::kMaxPool)
    return [=](const at::Tensor& x) {
      return at::max_pool2d(x, {size, size}, {stride, stride}, {padding, padding});
    };
  return [=](const at::Tensor& x) {
    return at::avg_pool2d(x, {size, size}, {stride, stride}, {padding, padding});
  };
}

Step ListNet::BatchNormOf(const Layer& layer, const std::string& name) {
  const double epsilon = layer.numbers.at("epsilon"), momentum = layer.numbers.at("momentum");
  const auto options =
      ::torch::nn::BatchNormOptions(layer.input.front()).eps(epsilon).momentum(momentum);
  return Registered(name, muster::torch::SyncBatchNorm(options));
}

Step ListNet::ConvolutionOf(const Layer& layer, const std::string& name) {
  return Registered(
      name, ::torch::nn::Conv2d(::torch::nn::Conv2dOptions(layer.input[0], layer.Whole("channels"),
                                                           layer.Whole("size"))
                                    .stride(layer.Whole("stride"))
                                    .padding(layer.Whole("padding"))
                                    .groups(layer.Whole("groups"))
                                    .bias(layer.Whole("bias") != 0)));
}

Step ListNet::ResidualOf(const Layer& layer, const std::string& name) {
  const auto block = register_module(name, std::make_shared<::torch::nn::Module>(name));
  const auto through =
      block->register_module("residual", std::make_shared<ListNet>(layer.lists[0]));
  const auto beside = block->register_module("shortcut", std::make_shared<ListNet>(layer.lists[1]));
  return
      [through, beside](const at::Tensor& x) { return through->forward(x) + beside->forward(x); };
}

Step ListNet::ParallelOf(const Layer& layer, const std::string& name) {
  const auto block = register_module(name, std::make_shared<::torch::nn::Module>(name));
  std::vector<std::shared_ptr<ListNet>> branches;
  for (size_t i = 0; i < layer.lists.size(); ++i)
    branches.push_back(
        block->register_module(absl::StrCat(i), std::make_shared<ListNet>(layer.lists[i])));
  return [branches, adds = layer.adds](const at::Tensor& x) {
    std::vector<at::Tensor> ends;
    for (const auto& branch : branches) ends.push_back(branch->forward(x));
    if (!adds) return at::cat(ends, 1);
    at::Tensor sum = ends[0];
    for (size_t i = 1; i < ends.size(); ++i) sum = sum + ends[i];
    return sum;
  };
}

Step ListNet::StepOf(const Layer& layer, const std::string& name) {
  switch (layer.kind) {
    case LayerKind::kLinear:
      return Registered(name, ::torch::nn::Linear(::torch::nn::LinearOptions(layer.input.back(),
                                                                             layer.Whole("size"))
                                                      .bias(layer.Whole("bias") != 0)));
    case LayerKind::kConv2d: return ConvolutionOf(layer, name);
    case LayerKind::kBatchNorm: return BatchNormOf(layer, name);
    case LayerKind::kLayerNorm:
      return Registered(name,
                        ::torch::nn::LayerNorm(::torch::nn::LayerNormOptions({layer.input.back()})
                                                   .eps(layer.numbers.at("epsilon"))));
    case LayerKind::kActivation: return ActivationOf(layer);
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool: return PoolOf(layer);
    case LayerKind::kGlobalAvgPool: return [](const at::Tensor& x) { return x.mean({2, 3}); };
    case LayerKind::kFlatten: return [](const at::Tensor& x) { return x.reshape({x.size(0), -1}); };
    case LayerKind::kTranspose: return [](const at::Tensor& x) { return x.transpose(1, 2); };
    case LayerKind::kDropout:
      // The module outlives its steps.
      return [this, share = layer.numbers.at("share")](const at::Tensor& x) {
        return at::dropout(x, share, is_training());
      };
    case LayerKind::kEmbedding: {
      ::torch::nn::Embedding table(layer.Whole("count"), layer.Whole("size"));
      register_module(name, table);
      return [table, path = layer.path](const at::Tensor& x) mutable {
        const at::Tensor ids = x.to(at::kLong);
        const at::Tensor is_wrong = ids.lt(0).logical_or(ids.ge(table->weight.size(0)));
        if (is_wrong.any().item<bool>())
          throw TaskError(absl::DataLossError(absl::StrCat(
              "parameters.", path, ": a sample has ",
              ids.masked_select(is_wrong)[0].item<int64_t>(),
              ", which is not below the embedding's count of ", table->weight.size(0))));
        return table->forward(ids);
      };
    }
    case LayerKind::kResidual: return ResidualOf(layer, name);
    case LayerKind::kParallel: return ParallelOf(layer, name);
  }
  return {};
}

using LayersNet = ::torch::nn::ModuleHolder<ListNet>;

LayerList ListFor(const TaskOptions& options, const DataSet& set) {
  const std::vector<DataField>& fields = set.Fields();
  if (fields.size() != 2)
    throw TaskError(absl::FailedPreconditionError(
        absl::StrCat("task layers takes one input, and a sample has ", fields.size() - 1,
                     " beside its label; data.keys chooses one")));
  LayerList list = ValueOrThrow(ReadLayers(options.Text("layers"), fields.front()));
  // Before any of them is made; when a member looks at this itself, it is too late.
  const double need = LeastMemoryOfMember(list.parameters, /*slots=*/0);
  const auto have = static_cast<double>(MemoryForUs());
  if (need > have)
    throw TaskError(absl::FailedPreconditionError(absl::StrFormat(
        "parameters.layers: they have %d parameters, more than this worker has memory for: it "
        "needs %.1f GB and more, and may have %.1f GB of this machine's; make layers smaller",
        list.parameters, need / 1e9, have / 1e9)));
  const absl::Status fits = muster::torch::NamedLoss(options).Check(list.output, fields.back());
  if (!fits.ok())
    throw TaskError(
        absl::FailedPreconditionError(absl::StrCat("parameters.layers: ", fits.message())));
  return list;
}

class LayersTask final : public muster::torch::NamedLossTask<LayersNet> {
 public:
  explicit LayersTask(const TaskOptions& options)
      : NamedLossTask(options, [options](const DataSet& set) {
          return LayersNet(ListFor(options, set).layers);
        }) {
    TryOutput();
  }

 private:
  at::Tensor Output(LayersNet& net, const Tensors& inputs) override { return net(inputs[0]); }
};

}  // namespace

std::unique_ptr<Task> MakeLayers(const TaskOptions& options) {
  return std::make_unique<LayersTask>(options);
}

}  // namespace muster::worker
