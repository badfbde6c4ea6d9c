// Writes a file of TorchScript, as PyTorch does: a layer, batch norm, dropout and another layer,
// from rows of numbers to one. Or with the same parameters and buffers, and a list `kept` of
// tensors, whatever FORWARD does, the definition of a method in TorchScript.
//
// usage: save_script FILE INPUTS SEED [FORWARD]
#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace {

constexpr char kForward[] =
    "def forward(self, x):\n"
    "    y = torch.batch_norm(torch.matmul(x, self.first), self.scale, self.shift, self.mean,\n"
    "                         self.variance, self.training, 0.1, 1e-5, False)\n"
    "    y = torch.dropout(torch.tanh(y), 0.05, self.training)\n"
    "    return torch.matmul(y, self.last)\n";

void Save(const std::string& file, int64_t inputs, const std::string& forward) {
  constexpr int64_t kHidden = 8;
  torch::jit::Module net("Net");
  const auto parameter = [&](const char* name, const at::Tensor& value) {
    net.register_parameter(name, value.clone().set_requires_grad(true), false);
  };
  parameter("first", at::randn({inputs, kHidden}));
  parameter("last", at::randn({kHidden, 1}) * 0.1);
  parameter("scale", at::ones({kHidden}));
  parameter("shift", at::zeros({kHidden}));
  net.register_buffer("mean", at::zeros({kHidden}));
  net.register_buffer("variance", at::ones({kHidden}));
  net.register_attribute("training", c10::BoolType::get(), true);
  net.register_attribute("kept", c10::ListType::ofTensors(), c10::List<at::Tensor>());
  net.define(forward);
  net.save(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: save_script FILE INPUTS SEED [FORWARD]\n";
    return 64;
  }
  at::manual_seed(static_cast<uint64_t>(std::atoll(argv[3])));
  Save(argv[1], std::atoll(argv[2]), argc == 5 ? argv[4] : kForward);
}
