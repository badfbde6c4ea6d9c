// A plug-in of a module of LibTorch that breaks its contract in the way that its parameter says:
// what only such a one can do.
#include <muster/plugin.h>
#include <muster/torch/module_task.h>
#include <torch/nn.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : used(register_module("used", torch::nn::Linear(2, 1))),
        unused(register_parameter("unused", torch::ones({3}))),
        count(register_buffer("count", torch::zeros({2}))) {}
  torch::nn::Linear used;
  at::Tensor unused, count;
};
TORCH_MODULE(Net);

std::unique_ptr<muster::DataSet> Data() {
  const std::string zeros(size_t{8} * 2 * sizeof(float), '\0');
  return muster::ValueOrThrow(
      muster::DataSetInMemory({{"x", muster::TensorType::kFloat32, {2}}}, {zeros}));
}

struct OddModule final : muster::torch::DataModuleTask<Net> {
  explicit OddModule(const muster::TaskOptions& options)
      : DataModuleTask(options, Data(), [](const muster::DataSet&) { return Net(); }),
        does_(options.Text("does")) {
    while (does_ == "is never made") pause();
  }

  at::Tensor Loss(Net& net, const Tensors& batch) override {
    const bool again = calls_++ > 0;
    if (does_ == "makes a parameter larger the second time" && again)
      net->used->weight.set_data(torch::zeros({1, 5}));
    const at::Tensor out = net->used(batch[0]);
    if (does_ == "throws in forward") throw std::runtime_error("no forward");
    if (does_ == "throws after twelve lanes" && calls_ > 12)
      throw std::runtime_error("no lane any more");
    if (does_ == "throws a number") throw 7;
    if (does_ == "throws in a hook")
      out.register_hook([](const at::Tensor&) { throw std::runtime_error("no hook"); });
    if (does_ == "throws a number in a hook") out.register_hook([](const at::Tensor&) { throw 7; });
    if (does_ == "has no number") return out.sum() * std::numeric_limits<double>::quiet_NaN();
    if (does_ == "gives many losses the second time" && again) return out;
    if (does_ == "gives nothing") return {};
    if (does_ == "forgets the gradient") return out.detach().sum();
    if (does_ == "makes a buffer larger the second time" && again) net->count.resize_({5});
    if (does_ == "leaves a larger gradient") net->unused.mutable_grad() = torch::ones({100'000});
    if (does_ == "leaves a gradient of doubles")
      net->unused.mutable_grad() = torch::ones({3}, at::kDouble);
    if (does_ == "leaves no gradient") net->unused.mutable_grad() = at::Tensor();
    if (does_ == "calls exit") std::exit(0);
    if (does_ == "aborts") std::abort();
    if (does_ == "leaves at once") _exit(0);
    if (does_ == "leaves as if stopped") _exit(67);
    return out.sum();
  }

 private:
  const std::string does_;
  int calls_ = 0;
};

}  // namespace

MUSTER_PLUGIN(muster::TypeOf<OddModule>(
    {.name = "odd-module",
     .help = "what a stranger may write",
     .parameters = {muster::TaskParameter::Text("does", "as it should", {}, "what it does")},
     .default_samples = 8}))
