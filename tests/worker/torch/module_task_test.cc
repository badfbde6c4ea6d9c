// A module whose parameters are not each trained alone: a layer that stands in it twice, and one
// that is frozen.
#include "muster/torch/module_task.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "lib/domain/update_rules.h"
#include "lib/kernels/float_env.h"
#include "tests/worker/commands/agreeing.h"
#include "worker/commands/check.h"

namespace muster::torch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct NetImpl : ::torch::nn::Module {
  NetImpl() {
    body = register_module("body", ::torch::nn::Linear(3, 4));
    for (at::Tensor& parameter : body->parameters()) parameter.set_requires_grad(false);
    layer = register_module("layer", ::torch::nn::Linear(4, 4));
    register_module("again", layer.ptr());
    head = register_module("head", ::torch::nn::Linear(4, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(layer(layer(body(x).tanh()).tanh()).tanh());
  }
  ::torch::nn::Linear body{nullptr}, layer{nullptr}, head{nullptr};
};
using Net = ::torch::nn::ModuleHolder<NetImpl>;

class NetTask final : public ModuleTask<Net> {
 public:
  NetTask() : ModuleTask(TaskOptions(), [] { return Net(); }) {
    Seed(5, 1);
    inputs_ = at::randn({24, 3});
    labels_ = at::randn({24, 1});
  }
  uint64_t SampleCount() const override { return 24; }
  std::string DataHash() const override { return "made of a seed"; }

 private:
  Tensors MakeBatch(const at::Tensor& samples) override {
    return {inputs_.index_select(0, samples), labels_.index_select(0, samples)};
  }
  at::Tensor Loss(Net& net, const Tensors& batch) override {
    return at::mse_loss(net(batch[0]), batch[1], at::Reduction::Sum);
  }

  at::Tensor inputs_, labels_;
};

JobSpec Spec() {
  JobSpec spec;
  spec.training.task = "net";
  spec.training.lanes = 4;
  spec.training.batch = 24;
  spec.training.optimizer.kind = OptimizerKind::kAdamW;
  spec.training.optimizer.weight_decay = 0.1;
  return spec;
}

TEST(ModuleTask, ALayerThatStandsTwiceIsOneAndWhatIsFrozenIsNotTrained) {
  SetFloatEnvironment();
  NetTask task;
  const absl::StatusOr<worker::CheckReport> report =
      worker::Check(Spec(), task, nullptr, {.gradients = 1000});
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<std::vector<std::string>> parameters, buffers;
  for (const TensorSpec& tensor : report->tensors)
    (tensor.kind == TensorKind::kParameter ? parameters : buffers).push_back(tensor.Names());
  EXPECT_THAT(parameters, ElementsAre(ElementsAre("layer.weight", "again.weight"),
                                      ElementsAre("layer.bias", "again.bias"),
                                      ElementsAre("head.weight"), ElementsAre("head.bias")));
  EXPECT_THAT(buffers, ElementsAre(ElementsAre("body.weight"), ElementsAre("body.bias")));
  EXPECT_EQ(report->parameters, 16 + 4 + 4 + 1);
  EXPECT_EQ(report->gradients.size(), 16U + 4 + 4 + 1) << "of what is trained, each once";
  EXPECT_GE(worker::AgreeingOf(*report), 20) << "of 25";
  EXPECT_THAT(report->problems, IsEmpty());
}

// What a rule of the update could reach: the frozen layer lies behind all of it.
TEST(ModuleTask, NoRuleReachesWhatIsFrozen) {
  NetTask task;
  const Layout layout = Layout::Make(static_cast<Task&>(task).Tensors(), 64).value();
  const absl::StatusOr<UpdateRules> rules = UpdateRules::Make(Spec().training, layout);
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->tensors().size(), 4U);
  for (const Placed& tensor : layout.tensors())
    EXPECT_EQ(tensor.offset >= layout.parameter_elements(), tensor.spec.name.starts_with("body."))
        << tensor.spec.name;
}

}  // namespace
}  // namespace muster::torch
