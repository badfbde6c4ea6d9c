#include "muster/torch/torch_data_set.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/mnist.h>
#include <torch/data/transforms/lambda.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/torch/module_task.h"
#include "tests/lib/data/opened_set.h"
#include "tests/worker/tasks/lane_rig.h"

namespace {

// Where `torch` is LibTorch's.
struct DigitsImpl : torch::nn::Module {
  DigitsImpl() : linear(register_module("linear", torch::nn::Linear(28 * 28, 10))) {}
  torch::nn::Linear linear;
};
TORCH_MODULE(Digits);

}  // namespace

namespace muster::torch {
namespace {

using testing::HasSubstr;
using worker::FlatMemory;
using worker::LaneRig;
using Mnist = ::torch::data::datasets::MNIST;
using Example = ::torch::data::Example<>;

// MNIST's reader takes files of this size alone.
constexpr uint32_t kImages = 10'000, kSide = 28;

std::string Big(std::vector<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t number : numbers)
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

// A folder with what MNIST calls its test set, of numbers that follow no rule.
class MnistFiles {
 public:
  MnistFiles() {
    std::string images = Big({0x803, kImages, kSide, kSide}), labels = Big({0x801, kImages});
    uint32_t state = 1;
    const auto next = [&] { return (state = state * 1664525 + 1013904223) >> 24; };
    for (uint32_t i = 0; i < kImages * kSide * kSide; ++i)
      images.push_back(static_cast<char>(next()));
    for (uint32_t i = 0; i < kImages; ++i) labels.push_back(static_cast<char>(next() % 10));
    data_ = {.paths = {files_.Write("t10k-images-idx3-ubyte", images),
                       files_.Write("t10k-labels-idx1-ubyte", labels)},
             .format = DataFormat::kIdx};
  }
  const DataSpec& data() const { return data_; }
  Mnist Read() const { return Mnist(files_.root(), Mnist::Mode::kTest); }

 private:
  Files files_;
  DataSpec data_;
};

const TorchData kAsOurs = {.names = {"image", "label"}};

struct DigitsTask final : DataModuleTask<Digits> {
  DigitsTask(const TaskOptions& options, std::unique_ptr<const DataSet> set)
      : DataModuleTask(options, std::move(set), [](const DataSet&) { return Digits(); }) {}
  at::Tensor Loss(Digits& net, const Tensors& batch) override {
    return at::cross_entropy_loss(net->linear(batch[0].flatten(1)), batch[1], {},
                                  at::Reduction::Sum);
  }
};

// The losses of some steps of gradient descent over the same samples.
std::vector<double> Trained(LaneRig& rig) {
  std::vector<double> losses;
  FlatMemory gradient = rig.Memory();
  for (int step = 0; step < 8; ++step) {
    const auto output = rig.Run({5, 9'999, 7, 0}, 3, gradient);
    EXPECT_TRUE(output.ok()) << output.status();
    if (!output.ok()) return {};
    losses.push_back(output->loss);
    for (size_t i = 0; i < gradient.span().size(); ++i)
      rig.parameters().data()[i] -= 0.002f * gradient.data()[i];
  }
  return losses;
}

TEST(TorchDataSet, MnistHasTheSamplesThatOurOwnReaderGivesAndTrainsTheSame) {
  const MnistFiles files;
  TaskOptions options;
  options.data = files.data();
  std::unique_ptr<DataSet> own = OpenDataSet(options).value();
  std::unique_ptr<DataSet> theirs = FromTorch(options, files.Read(), kAsOurs);
  ASSERT_EQ(theirs->Fields(), own->Fields());
  ASSERT_EQ(theirs->Samples(), own->Samples());
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < kImages; id += 7) ids.push_back(id * 3 % kImages);
  const Batch ours = own->Read(0, ids).value(), batch = theirs->Read(0, ids).value();
  for (size_t f = 0; f < 2; ++f) EXPECT_TRUE(std::ranges::equal(ours.of(f), batch.of(f))) << f;

  LaneRig by_own(std::make_unique<DigitsTask>(options, std::move(own)));
  LaneRig by_theirs(std::make_unique<DigitsTask>(options, std::move(theirs)));
  const auto expected = Trained(by_own), given = Trained(by_theirs);
  EXPECT_EQ(expected, given);
  EXPECT_LT(given.back(), given.front() / 2);
  EXPECT_TRUE(by_own.parameters().SameBits(by_theirs.parameters()));
}

// Numbers, and twice as much as the target; `odd` does something to them.
class Numbers : public ::torch::data::datasets::Dataset<Numbers> {
 public:
  using Odd = std::function<void(size_t id, Example& example)>;
  explicit Numbers(
      size_t samples, Odd odd = [](size_t, Example&) {})
      : samples_(samples), odd_(std::move(odd)) {}
  Example get(size_t id) override {
    const double number = static_cast<double>(id);
    Example example(at::full({2, 3}, number), at::full({}, 2 * number, at::kDouble));
    odd_(id, example);
    return example;
  }
  std::optional<size_t> size() const override { return samples_; }

 private:
  size_t samples_;
  Odd odd_;
};

struct Without : ::torch::data::datasets::Dataset<Without, ::torch::data::TensorExample> {
  ::torch::data::TensorExample get(size_t id) override {
    return {at::full({1}, static_cast<int64_t>(id), at::kShort)};
  }
  std::optional<size_t> size() const override { return 5; }
};

TEST(TorchDataSet, FieldsAreThoseOfTheFirstSample) {
  const auto numbers = FromTorch({}, Numbers(9));
  EXPECT_EQ(numbers->Fields(), (std::vector<DataField>{{"input", TensorType::kFloat32, {2, 3}},
                                                       {"label", TensorType::kFloat64, {}}}));
  EXPECT_EQ(numbers->Samples(), 9u);
  EXPECT_EQ(Read<double>(*numbers, 1, {8, 0, 3}), (std::vector<double>{16, 0, 6}));
  EXPECT_EQ(Read<float>(*numbers, 0, {2, 1}),
            (std::vector<float>{2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(numbers->Read(0, std::vector<uint64_t>{9}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto without = FromTorch({}, Without());
  EXPECT_EQ(without->Fields(), (std::vector<DataField>{{"input", TensorType::kInt16, {1}}}));
}

TEST(TorchDataSet, OneThatIsMappedIsOneToo) {
  using Lambda = ::torch::data::transforms::Lambda<Example>;
  auto mapped = Numbers(4).map(Lambda([](Example example) {
    return Example(example.data.slice(1, 0, 2) + 1, example.target);  // not contiguous
  }));
  const auto set = FromTorch({}, std::move(mapped));
  EXPECT_EQ(set->Fields()[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(Read<float>(*set, 0, {3}), (std::vector<float>{4, 4, 4, 4}));
}

TEST(TorchDataSet, ItsHashIsOfAllSamplesUnlessItIsTold) {
  const auto hash = [](Numbers set, TorchData about = {}) {
    return FromTorch({}, std::move(set), std::move(about))->ContentHash();
  };
  const std::string plain = hash(Numbers(600));
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(plain, hash(Numbers(600)));
  EXPECT_NE(plain, hash(Numbers(601)));
  EXPECT_NE(plain, hash(Numbers(600), {.names = {"input", "target"}}));
  EXPECT_NE(plain, hash(Numbers(600, [](size_t id, Example& example) {
              if (id == 599) example.target.add_(1);
            })));
  EXPECT_EQ(hash(Numbers(600), {.content_hash = "release 7"}), "release 7");
}

TEST(TorchDataSet, PartsAreThoseOfTheJob) {
  TaskOptions options;
  options.data.validation_share = 0.25;
  const auto training = FromTorch(options, Numbers(100));
  options.part = DataPart::kValidation;
  const auto validation = FromTorch(options, Numbers(100));
  EXPECT_EQ(training->Samples() + validation->Samples(), 100u);
  std::vector<double> expected;
  for (uint64_t id = 0; id < 100; ++id)
    if (IsForValidation(options.data, id)) expected.push_back(2 * static_cast<double>(id));
  ASSERT_EQ(validation->Samples(), expected.size());
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < expected.size(); ++id) ids.push_back(id);
  EXPECT_EQ(Read<double>(*validation, 1, ids), expected);
  // Files of its own, which the task has read.
  options.validation_paths = {"held-out"};
  EXPECT_EQ(FromTorch(options, Numbers(7))->Samples(), 7u);
}

absl::Status Refusal(Numbers set, TorchData about = {}) {
  try {
    FromTorch({}, std::move(set), std::move(about));
    return absl::OkStatus();
  } catch (const TaskError& error) {
    return error.status();
  }
}

TEST(TorchDataSet, WhatCannotBeASampleIsNamed) {
  struct Row {
    Numbers::Odd odd;
    absl::StatusCode code;
    const char* says;
  };
  const auto of = [](size_t number, std::function<void(Example&)> change) -> Numbers::Odd {
    return [=](size_t id, Example& example) {
      if (id == number) change(example);
    };
  };
  const Row rows[] = {
      {[](size_t, Example& e) {
         e.data = e.data + at::rand({2, 3});
       },
       absl::StatusCode::kFailedPrecondition, "sample 0 of the data set is another one"},
      {of(3,
          [](Example& e) {
            e.data = at::zeros({3, 2});
          }),
       absl::StatusCode::kDataLoss,
       "sample 3 of the data set: 'input' is Float (3, 2), and that of the first is Float (2, 3)"},
      {of(3, [](Example& e) { e.target = at::zeros({}); }), absl::StatusCode::kDataLoss,
       "sample 3 of the data set: 'label' is Float (), and that of the first is Double ()"},
      {of(3, [](Example& e) { e.data = at::Tensor(); }), absl::StatusCode::kDataLoss,
       "'input' is no dense tensor on the processor"},
      {of(0,
          [](Example& e) {
            e.data = at::zeros({0, 2});
          }),
       absl::StatusCode::kFailedPrecondition, "'input' is Float (0, 2), which no sample can be"},
      {of(0, [](Example& e) { e.data = at::zeros({2}, at::kComplexFloat); }),
       absl::StatusCode::kFailedPrecondition, "'input' is ComplexFloat (2)"},
      {of(3, [](Example&) { throw std::runtime_error("broken"); }), absl::StatusCode::kDataLoss,
       "sample 3 of the data set cannot be read: broken"},
      {of(3, [](Example& e) { e.data = at::matmul(e.data, e.data); }), absl::StatusCode::kDataLoss,
       "sample 3 of the data set cannot be read: mat1 and mat2"},
      {of(3, [](Example&) { throw TaskError(absl::DataLossError("x.bin: cut off")); }),
       absl::StatusCode::kDataLoss, "x.bin: cut off"},
      {of(3, [](Example&) { throw 7; }), absl::StatusCode::kDataLoss, "what is no exception"},
  };
  for (const Row& row : rows) {
    const absl::Status refused = Refusal(Numbers(8, row.odd));
    EXPECT_EQ(refused.code(), row.code) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(row.says));
  }
  EXPECT_EQ(Refusal(Numbers(0)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Refusal(Numbers(2), {.names = {"x"}}).message()),
              HasSubstr("a sample has 2 fields, and their names are 'x'"));
  EXPECT_EQ(Refusal(Numbers(2), {.names = {"x", "x"}}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Refusal(Numbers(2), {.content_hash = std::string(257, 'x')}).code(),
            absl::StatusCode::kFailedPrecondition);
}

// Two threads that read; both are in get() at a time where they may be.
TEST(TorchDataSet, ThreadsWaitForEachOtherUnlessTheyNeedNot) {
  for (const bool any_thread : {false, true}) {
    std::atomic<bool> begun = false;
    std::atomic<int> inside = 0, most = 0;
    const Numbers::Odd odd = [&](size_t, Example&) {
      if (!begun) return;
      const int now = ++inside;
      for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
      }
      while (any_thread && most < 2) std::this_thread::yield();
      --inside;
    };
    const auto set = FromTorch({}, Numbers(64, odd), {.any_thread = any_thread});
    begun = true;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&set] {
        for (uint64_t id = 0; id < 64; ++id)
          EXPECT_EQ(Read<double>(*set, 1, {id})[0], 2 * static_cast<double>(id));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(most, any_thread ? 2 : 1);
  }
}

}  // namespace
}  // namespace muster::torch
