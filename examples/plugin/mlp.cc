// A multi-layer perceptron on CSV files of numbers: it tells the label from the other columns.
#include <muster/plugin.h>
#include <muster/torch/module_task.h>
#include <torch/nn.h>

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t inputs, int64_t hidden)
      : first(register_module("first", torch::nn::Linear(inputs, hidden))),
        last(register_module("last", torch::nn::Linear(hidden, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return last(torch::tanh(first(x))).squeeze(1); }
  torch::nn::Linear first, last;
};
TORCH_MODULE(Net);

struct Mlp final : muster::torch::DataModuleTask<Net> {
  explicit Mlp(const muster::TaskOptions& options)
      : DataModuleTask(options, [=](const muster::DataSet& data) {
          return Net(data.Fields()[0].shape[0], options.Integer("hidden"));
        }) {}
  at::Tensor Loss(Net& net, const Tensors& batch) override {
    return torch::mse_loss(net(batch[0]), batch[1], at::Reduction::Sum);
  }
};

MUSTER_PLUGIN(muster::TypeOf<Mlp>(
    {.name = "mlp",
     .help = "a multi-layer perceptron on CSV files of numbers",
     .parameters = {muster::TaskParameter::Integer("hidden", 16, 1, 4096, "neurons inside")},
     .data_needed = true}))
