#include "worker/torch/flat_module.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <utility>

#include "lib/domain/layout.h"
#include "tests/worker/tasks/lane_rig.h"

namespace muster::worker {
namespace {

using testing::ElementsAre;

// Three layers, one that no loss uses, and a running mean.
struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(5, 7));
    unused = register_module("unused", torch::nn::Linear(3, 2));
    last = register_module("last", torch::nn::Linear(7, 5));
    mean = register_buffer("mean", at::zeros({7}));
  }
  at::Tensor Loss(const at::Tensor& x) {
    const at::Tensor hidden = first(x).tanh();
    {
      at::NoGradGuard no_grad;
      mean.mul_(0.5).add_(hidden.mean(0), 0.5);
    }
    return first(last(hidden).tanh()).square().sum();  // `first` twice: its gradients add up
  }
  torch::nn::Linear first{nullptr}, unused{nullptr}, last{nullptr};
  at::Tensor mean;
};

struct Rig {
  explicit Rig(std::shared_ptr<Net> the_net = std::make_shared<Net>())
      : net(std::move(the_net)), flat(net, 1, copied) {
    layout = Layout::Make(flat.tensors(), 64).value();
    EXPECT_TRUE(flat.Bind(layout.space()).ok());
    parameters = std::make_unique<FlatMemory>(layout.elements());
    gradient = std::make_unique<FlatMemory>(layout.elements());
    EXPECT_TRUE(flat.Store(Net(), parameters->span()).ok());
    stored = copied.exchange(0);
  }

  absl::StatusOr<double> Run(const std::function<at::Tensor()>& loss) {
    gradient->Zero();
    ready.clear();
    outcomes.clear();
    GradientSink sink{gradient->span(),
                      [&](LaneOutput o) {
                        EXPECT_TRUE(ready.empty()) << "announced before the outcome";
                        outcomes.push_back(o);
                      },
                      [&](size_t i) { ready.push_back(flat.tensors()[i].name); }};
    const auto output = flat.Run({.seed = 3, .parameters = parameters->span()}, sink,
                                 {.make_batch = [] {}, .weight = [] { return 4; }, .loss = loss});
    if (!output.ok()) return output.status();
    EXPECT_EQ(outcomes.size(), 1u);
    EXPECT_EQ(outcomes[0].loss, output->loss);
    EXPECT_EQ(outcomes[0].weight, 4);
    return output->loss;
  }

  at::Tensor Gradient(const std::string& name) const {
    for (const Placed& p : layout.tensors())
      if (p.spec.name == name)
        return at::from_blob(gradient->data() + p.offset, p.spec.shape, at::kFloat);
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

  std::shared_ptr<Net> net;
  CopyCounter copied{0};
  FlatModule flat;
  uint64_t stored = 0;  // bytes of the first state
  Layout layout;
  std::unique_ptr<FlatMemory> parameters, gradient;
  std::vector<std::string> ready;
  std::vector<LaneOutput> outcomes;
};

TEST(FlatModule, GradientsAreThoseOfPlainAutograd) {
  Rig rig;
  const at::Tensor x = at::rand({4, 5});
  const auto loss = rig.Run([&] { return rig.net->Loss(x); });
  ASSERT_TRUE(loss.ok()) << loss.status();

  Net plain;
  {
    at::NoGradGuard no_grad;
    for (const auto& p : plain.named_parameters())
      p.value().copy_(rig.net->named_parameters()[p.key()]);
  }
  const at::Tensor expected = plain.Loss(x);
  expected.backward();
  EXPECT_EQ(*loss, expected.item<double>());
  for (const auto& p : plain.named_parameters()) {
    if (p.value().grad().defined()) {
      EXPECT_TRUE(rig.Gradient(p.key()).equal(p.value().grad())) << p.key();
    }
  }
  EXPECT_EQ(rig.Gradient("unused.weight").count_nonzero().item<int64_t>(), 0);
  EXPECT_TRUE(rig.Gradient("mean").equal(plain.mean));
  EXPECT_EQ(rig.flat.copied_gradients(), 0);
}

TEST(FlatModule, AnnouncesAsBackwardGoesThenWhatHasNoGradientThenBuffers) {
  Rig rig;
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(at::ones({2, 5})); }).ok());
  ASSERT_EQ(rig.ready.size(), 7u);
  EXPECT_THAT(rig.ready[0], testing::StartsWith("last"));
  EXPECT_THAT(rig.ready[2], testing::StartsWith("first"));
  EXPECT_THAT(std::vector<std::string>(rig.ready.begin() + 4, rig.ready.end()),
              ElementsAre("unused.weight", "unused.bias", "mean"));
}

TEST(FlatModule, BuffersStartFromTheStateInEachLane) {
  Rig rig;
  const at::Tensor x = at::rand({4, 5});
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(x); }).ok());
  const FlatMemory first(*rig.gradient);
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(x); }).ok());
  EXPECT_TRUE(first.SameBits(*rig.gradient));
}

TEST(FlatModule, AGradientThatAutogradPutsElsewhereIsCopiedAndCounted) {
  Rig rig;
  const at::Tensor x = at::rand({4, 5});
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(x); }).ok());
  const FlatMemory expected(*rig.gradient);
  ASSERT_TRUE(rig.Run([&] {
                   rig.net->last->weight.mutable_grad() = at::Tensor();  // autograd makes its own
                   return rig.net->Loss(x);
                 })
                  .ok());
  EXPECT_TRUE(expected.SameBits(*rig.gradient));
  EXPECT_EQ(rig.flat.copied_gradients(), 1);
  constexpr uint64_t kBuffersOfTwoLanes = 2 * 2 * 7 * sizeof(float),
                     kGradient = 5 * 7 * sizeof(float);
  EXPECT_EQ(rig.copied, kBuffersOfTwoLanes + kGradient);
}

// As a body that was trained before, under a head that learns.
TEST(FlatModule, AParameterThatNeedsNoGradientStandsWithTheBuffersAndStays) {
  const auto make = [] {
    auto net = std::make_shared<Net>();
    net->first->weight.set_requires_grad(false);
    return net;
  };
  const std::shared_ptr<Net> net = make();
  CopyCounter copied{0};
  FlatModule flat(net, 1, copied);
  std::vector<std::string> parameters, buffers;
  for (const TensorSpec& tensor : flat.tensors())
    (tensor.kind == TensorKind::kParameter ? parameters : buffers).push_back(tensor.name);
  EXPECT_THAT(parameters, ElementsAre("first.bias", "unused.weight", "unused.bias", "last.weight",
                                      "last.bias"));
  EXPECT_THAT(buffers, ElementsAre("first.weight", "mean"));
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  ASSERT_EQ(flat.Bind(layout.space()), absl::OkStatus());
  FlatMemory state(layout.elements()), gradient(layout.elements());
  const std::shared_ptr<Net> source = make();
  ASSERT_EQ(flat.Store(*source, state.span()), absl::OkStatus());
  GradientSink sink{gradient.span(), [](LaneOutput) {}, [](size_t) {}};
  const LaneWork work{.make_batch = [] {},
                      .weight = [] { return 2; },
                      .loss =
                          [&] {
                            return net->Loss(at::ones({2, 5}));
                          }};
  ASSERT_EQ(flat.Run({.parameters = state.span()}, sink, work).status(), absl::OkStatus());
  const at::Tensor expected = source->first->weight.contiguous();
  for (const Placed& p : layout.tensors()) {
    if (p.spec.name == "first.weight") {
      EXPECT_TRUE(
          at::from_blob(gradient.data() + p.offset, p.spec.shape, at::kFloat).equal(expected))
          << "its value comes back, and no gradient";
    }
  }
  EXPECT_EQ(flat.Store(Net(), state.span()).code(), absl::StatusCode::kFailedPrecondition)
      << "of that module it needs one";
}

// A layer that stands in the module twice.
struct Tied : torch::nn::Module {
  Tied() {
    first = register_module("first", torch::nn::Linear(5, 5));
    register_module("again", first.ptr());
    mean = register_buffer("mean", at::zeros({5}));
    register_buffer("also", mean);
  }
  at::Tensor Loss(const at::Tensor& x) { return first(first(x).tanh()).square().sum(); }
  torch::nn::Linear first{nullptr};
  at::Tensor mean;
};

TEST(FlatModule, ATensorUnderTwoNamesIsOneWithItsWholeGradient) {
  auto net = std::make_shared<Tied>();
  CopyCounter copied{0};
  FlatModule flat(net, 1, copied);
  std::vector<std::vector<std::string>> names;
  for (const TensorSpec& tensor : flat.tensors()) names.push_back(tensor.Names());
  EXPECT_THAT(names,
              ElementsAre(ElementsAre("first.weight", "again.weight"),
                          ElementsAre("first.bias", "again.bias"), ElementsAre("mean", "also")));
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  ASSERT_EQ(flat.Bind(layout.space()), absl::OkStatus());
  FlatMemory state(layout.elements()), gradient(layout.elements());
  Tied source;
  ASSERT_EQ(flat.Store(source, state.span()), absl::OkStatus());
  std::vector<size_t> ready;
  GradientSink sink{gradient.span(), [](LaneOutput) {}, [&](size_t i) { ready.push_back(i); }};
  const at::Tensor x = at::rand({4, 5});
  const LaneWork work{
      .make_batch = [] {}, .weight = [] { return 4; }, .loss = [&] { return net->Loss(x); }};
  ASSERT_EQ(flat.Run({.parameters = state.span()}, sink, work).status(), absl::OkStatus());
  EXPECT_EQ(ready.size(), 3U);
  EXPECT_EQ(flat.copied_gradients(), 0);
  source.Loss(x).backward();
  const Placed& weight = layout.tensors()[0];
  EXPECT_TRUE(at::from_blob(gradient.data() + weight.offset, weight.spec.shape, at::kFloat)
                  .equal(source.first->weight.grad()));
}

TEST(FlatModule, BytesOfTheFirstStateAndOfBuffersAreCounted) {
  Rig rig;
  uint64_t bytes = 0;
  for (const Placed& p : rig.layout.tensors())
    bytes += static_cast<uint64_t>(p.count) * sizeof(float);
  EXPECT_EQ(rig.stored, bytes);
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(at::ones({2, 5})); }).ok());
  EXPECT_EQ(rig.copied, 2 * 7 * sizeof(float)) << "the mean, in and out";
}

TEST(FlatModule, HolesStayZero) {
  Rig rig;
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(at::ones({2, 5})); }).ok());
  std::vector<bool> in_tensor(rig.gradient->span().size(), false);
  for (const Placed& p : rig.layout.tensors())
    std::fill_n(in_tensor.begin() + p.offset, p.count, true);
  size_t holes = 0;
  for (size_t i = 0; i < in_tensor.size(); ++i) {
    if (in_tensor[i]) continue;
    ++holes;
    EXPECT_EQ(rig.gradient->span()[i], 0.0f);
  }
  EXPECT_GT(holes, 0u);
}

TEST(FlatModule, SurvivesMoreMemoriesThanItRemembers) {
  Rig rig;
  const at::Tensor x = at::rand({4, 5});
  ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(x); }).ok());
  const FlatMemory expected(*rig.gradient);
  std::vector<std::unique_ptr<FlatMemory>> kept;  // so that no address comes twice
  for (size_t i = 0; i < 40; ++i) {
    kept.push_back(std::move(rig.gradient));
    rig.gradient = std::make_unique<FlatMemory>(rig.layout.elements(), i % 5);
    kept.push_back(
        std::exchange(rig.parameters, std::make_unique<FlatMemory>(*rig.parameters, i % 7)));
    ASSERT_TRUE(rig.Run([&] { return rig.net->Loss(x); }).ok());
    EXPECT_TRUE(expected.SameBits(*rig.gradient));
  }
}

TEST(FlatModule, WhatTorchThrowsIsAStatus) {
  Rig rig;
  const auto wrong_shape = rig.Run([&] { return rig.net->Loss(at::ones({2, 6})); });
  EXPECT_EQ(wrong_shape.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(wrong_shape.status().message()), testing::StartsWith("LibTorch: "));
  EXPECT_TRUE(rig.Run([&] { return rig.net->Loss(at::ones({2, 5})); }).ok()) << "and goes on";
}

TEST(FlatModule, WhatNoMachineHoldsIsAWordAboutMemory) {
  const absl::Status status = CatchTorch([] { at::empty({int64_t{1} << 58}, at::kFloat); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find("make the model smaller"), std::string::npos) << status;
}

// A picture that is cut off ends its job with exit code 65, also where it is read in a lane.
TEST(FlatModule, WhatATaskThrowsInALaneKeepsItsStatus) {
  Rig rig;
  const absl::Status status =
      rig.Run([]() -> at::Tensor { throw TaskError(absl::DataLossError("a.jpg: is cut off")); })
          .status();
  EXPECT_EQ(status, absl::DataLossError("a.jpg: is cut off"));
}

TEST(CatchTorch, OfATraceOfTorchScriptTheReasonIsTold) {
  const absl::Status status = CatchTorch([] {
    throw std::runtime_error(
        "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript "
        "(most recent call last):\n  File \"net.py\", line 3, in forward\n    return Error: no\n"
        "RuntimeError: shapes cannot be multiplied (2x3 and 4x5)\n");
  });
  EXPECT_EQ(status, absl::InternalError(
                        "LibTorch: RuntimeError: shapes cannot be multiplied (2x3 and 4x5)"));
}

TEST(FlatModule, AModuleThatIsMadeOtherwiseTheSecondTimeIsRefused) {
  Rig rig;
  Net wider, more;
  wider.replace_module("last", torch::nn::Linear(7, 6));
  const absl::Status shape = rig.flat.Store(wider, rig.parameters->span());
  EXPECT_EQ(shape.code(), absl::StatusCode::kFailedPrecondition)
      << "the job cannot be, its data can";
  EXPECT_THAT(std::string(shape.message()),
              testing::HasSubstr("tensor 'last.weight' has another shape or type when it is made"));
  more.register_module("more", torch::nn::Linear(1, 1));
  EXPECT_THAT(std::string(rig.flat.Store(more, rig.parameters->span()).message()),
              testing::HasSubstr("has 7 tensors, and 9 when it is made again"));
}

TEST(FlatModule, RefusesMemoryThatIsNotAligned) {
  Rig rig;
  const FlatMemory larger(rig.layout.elements() + 16);
  const absl::Span<const float> shifted =
      absl::MakeSpan(larger.data() + 1, static_cast<size_t>(rig.layout.elements()));
  EXPECT_EQ(rig.flat.Attach(shifted).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.flat.Attach(larger.span()).code(), absl::StatusCode::kInvalidArgument);
}

// Batch norm counts its batches in an int64; a mask is of booleans and ends within a float.
at::Tensor Mask() { return at::arange(5).remainder(3).eq(0); }

struct Counting : torch::nn::Module {
  Counting() {
    norm = register_module("norm", torch::nn::BatchNorm1d(5));
    mask = register_buffer("mask", Mask());
    large = register_buffer("large", at::tensor({(int64_t{1} << 53) + 1}));
    exact = register_buffer("exact", at::tensor({0.1}, at::kDouble));
  }
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor mask, large, exact;
};

TEST(FlatModule, BuffersOfEveryTypeKeepTheirBits) {
  auto net = std::make_shared<Counting>();
  CopyCounter copied{0};
  FlatModule flat(net, 1, copied);
  const Layout layout = Layout::Make(flat.tensors(), 64).value();
  ASSERT_EQ(flat.Bind(layout.space()), absl::OkStatus());
  FlatMemory state(layout.elements()), gradient(layout.elements());
  ASSERT_EQ(flat.Store(Counting(), state.span()), absl::OkStatus());
  for (int64_t lane = 1; lane <= 3; ++lane) {
    gradient.Zero();
    GradientSink sink{gradient.span(), [](LaneOutput) {}, [](size_t) {}};
    const LaneWork work{
        .make_batch = [] {},
        .weight = [] { return 2; },
        .loss =
            [&] {
              EXPECT_EQ(net->norm->num_batches_tracked.item<int64_t>(), lane - 1);
              EXPECT_TRUE(at::equal(net->mask, Mask()));
              EXPECT_EQ(net->large.item<int64_t>(), (int64_t{1} << 53) + lane);
              EXPECT_EQ(net->exact.item<double>(), 0.1);
              net->large.add_(1);
              return net->norm(at::ones({2, 5})).sum();
            },
    };
    ASSERT_EQ(flat.Run({.parameters = state.span()}, sink, work).status(), absl::OkStatus());
    // The update copies a buffer's new value, and nothing else of it.
    for (const Placed& p : layout.tensors())
      if (p.spec.kind == TensorKind::kBuffer)
        std::copy_n(gradient.span().begin() + p.offset, p.count, state.span().begin() + p.offset);
    net->large.fill_(0);
    net->norm->num_batches_tracked.fill_(77);
  }
}

TEST(FlatModule, ABufferThatALaneMadeAnotherOfIsAnError) {
  const auto error = [](const std::function<void(at::Tensor&)>& change) {
    auto net = std::make_shared<Net>();
    Rig rig(net);
    const absl::Status status = rig.Run([&] {
                                     at::Tensor loss = net->Loss(at::ones({2, 5}));
                                     at::NoGradGuard no_grad;
                                     change(net->mean);
                                     return loss;
                                   })
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(error([](at::Tensor& mean) { mean.resize_({70000}); }), testing::HasSubstr("'mean'"));
  EXPECT_THAT(error([](at::Tensor& mean) { mean.set_data(at::zeros({7}, at::kLong)); }),
              testing::HasSubstr("'mean'"));
}

TEST(FlatModule, RefusesWhatTheFlatSpaceCannotHold) {
  auto net = std::make_shared<Net>();
  net->register_buffer("count", at::zeros({1}, at::kComplexFloat));
  CopyCounter copied{0};
  FlatModule flat(net, 1, copied);
  const absl::Status status = flat.Bind(Layout::Make(flat.tensors(), 64)->space());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << "it is the model's fault";
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("count"));
}

}  // namespace
}  // namespace muster::worker
