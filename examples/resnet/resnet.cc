// A residual network on small images (He and others, "Deep Residual Learning", 2015), in the format
// of CIFAR or any other that holds images and labels.
#include <muster/plugin.h>
#include <muster/torch/named_loss.h>
#include <muster/torch/sync_batch_norm.h>
#include <torch/nn.h>

using muster::torch::SyncBatchNorm;  // a BatchNorm2d, unless the job says sync_batch_norm
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

Conv2d Convolution(int64_t in, int64_t out, int64_t size, int64_t stride) {
  return Conv2d(Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t in, int64_t out, int64_t stride)
      : first(register_module("first", Convolution(in, out, 3, stride))),
        first_norm(register_module("first_norm", SyncBatchNorm(out))),
        second(register_module("second", Convolution(out, out, 3, 1))),
        second_norm(register_module("second_norm", SyncBatchNorm(out))) {
    if (in == out && stride == 1) return;
    shortcut = register_module("shortcut", Convolution(in, out, 1, stride));
    shortcut_norm = register_module("shortcut_norm", SyncBatchNorm(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor inner = torch::relu(first_norm(first(x)));
    const at::Tensor beside = shortcut ? shortcut_norm(shortcut(x)) : x;
    return torch::relu(second_norm(second(inner)) + beside);
  }
  Conv2d first;
  SyncBatchNorm first_norm;
  Conv2d second;
  SyncBatchNorm second_norm;
  Conv2d shortcut{nullptr};
  SyncBatchNorm shortcut_norm{nullptr};
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t channels, int64_t width, int64_t blocks, int64_t classes)
      : stem(register_module("stem", Convolution(channels, width, 3, 1))),
        norm(register_module("norm", SyncBatchNorm(width))),
        stages(register_module("stages", torch::nn::Sequential())),
        head(register_module("head", torch::nn::Linear(4 * width, classes))) {
    int64_t in = width;
    for (const int64_t factor : {1, 2, 4}) {
      for (int64_t b = 0; b < blocks; ++b, in = factor * width)
        stages->push_back(Block(in, factor * width, b == 0 && factor > 1 ? 2 : 1));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(stages->forward(torch::relu(norm(stem(x)))).mean({2, 3}));
  }
  Conv2d stem;
  SyncBatchNorm norm;
  torch::nn::Sequential stages;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

struct ResNet final : muster::torch::NamedLossTask<Net> {
  explicit ResNet(const muster::TaskOptions& options)
      : NamedLossTask(options, [=](const muster::DataSet& data) {
          return Net(data.Fields()[0].shape.at(0), options.Integer("width"),
                     options.Integer("blocks"), options.Integer("classes"));
        }) {}
  at::Tensor Output(Net& net, const Tensors& inputs) override { return net(inputs[0]); }
};

MUSTER_PLUGIN(muster::TypeOf<ResNet>(
    {.name = "resnet",
     .help = "a residual network on small images",
     .parameters = muster::WithLossParameters(
         {muster::TaskParameter::Integer("width", 16, 1, 1024, "channels of the first stage"),
          muster::TaskParameter::Integer("blocks", 1, 1, 100, "in each of three stages"),
          muster::TaskParameter::Integer("classes", 10, 2, 100000, "labels are below it")}),
     .data_needed = true}))
