#include "worker/tasks/code_lm.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "lib/base/hash.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "muster/corpus.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/numerics.h"

namespace muster::worker {
namespace {

constexpr int64_t kVocabulary = 256;
constexpr double kTemperature = 0.8;
constexpr double kInitialDeviation = 0.02;

struct Shape {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t context = 0;
  int64_t stride = 0;
  double dropout = 0;
};

Shape ReadShape(const TrainingSpec& training) {
  const auto whole = [&](const char* name) {
    return static_cast<int64_t>(std::get<double>(training.parameters.at(name)));
  };
  const int64_t stride = whole("stride");
  return {.layers = whole("layers"),
          .width = whole("width"),
          .heads = whole("heads"),
          .context = whole("context"),
          .stride = stride == 0 ? whole("context") : stride,
          .dropout = std::get<double>(training.parameters.at("dropout"))};
}

void Normal(at::Tensor& weight, double deviation) { weight.normal_(0, deviation); }

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const Shape& shape) : shape_(shape) {
    const int64_t width = shape.width;
    attention_norm_ = register_module("attention_norm", Norm(width));
    query_key_value_ = register_module("query_key_value", torch::nn::Linear(width, 3 * width));
    attention_out_ = register_module("attention_out", torch::nn::Linear(width, width));
    mlp_norm_ = register_module("mlp_norm", Norm(width));
    mlp_in_ = register_module("mlp_in", torch::nn::Linear(width, 4 * width));
    mlp_out_ = register_module("mlp_out", torch::nn::Linear(4 * width, width));
    Initialize();
  }

  static torch::nn::LayerNorm Norm(int64_t width) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
  }

  at::Tensor forward(at::Tensor x) {
    x = x + at::dropout(Attend(attention_norm_(x)), shape_.dropout, is_training());
    const at::Tensor mlp = mlp_out_(at::gelu(mlp_in_(mlp_norm_(x))));
    return x + at::dropout(mlp, shape_.dropout, is_training());
  }

 private:
  // What is added to the residual stream starts smaller the more layers add to it.
  void Initialize() {
    const double residual = kInitialDeviation / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    Normal(query_key_value_->weight, kInitialDeviation);
    Normal(attention_out_->weight, residual);
    Normal(mlp_in_->weight, kInitialDeviation);
    Normal(mlp_out_->weight, residual);
    for (const auto& linear : {query_key_value_, attention_out_, mlp_in_, mlp_out_})
      linear->bias.zero_();
  }

  // x: (samples, positions, width). A position attends to itself and those before it.
  at::Tensor Attend(const at::Tensor& x) {
    const int64_t samples = x.size(0), positions = x.size(1), head = shape_.width / shape_.heads;
    const auto parts = query_key_value_(x)
                           .view({samples, positions, 3, shape_.heads, head})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {},
                                                              /*dropout_p=*/0, /*is_causal=*/true);
    return attention_out_(mixed.transpose(1, 2).reshape({samples, positions, shape_.width}));
  }

  const Shape shape_;
  torch::nn::LayerNorm attention_norm_{nullptr}, mlp_norm_{nullptr};
  torch::nn::Linear query_key_value_{nullptr}, attention_out_{nullptr};
  torch::nn::Linear mlp_in_{nullptr}, mlp_out_{nullptr};
};
TORCH_MODULE(Block);

// The initial weights come from torch's default generator: seed it before.
class ModelImpl : public torch::nn::Module {
 public:
  explicit ModelImpl(const Shape& shape) : shape_(shape) {
    at::NoGradGuard no_grad;
    bytes_ = register_module("bytes", torch::nn::Embedding(kVocabulary, shape.width));
    positions_ = register_parameter("positions", at::zeros({shape.context, shape.width}));
    blocks_ = register_module("blocks", torch::nn::ModuleList());
    for (int64_t i = 0; i < shape.layers; ++i) blocks_->push_back(Block(shape));
    norm_ = register_module("norm", BlockImpl::Norm(shape.width));
    head_ = register_module(
        "head", torch::nn::Linear(torch::nn::LinearOptions(shape.width, kVocabulary).bias(false)));
    for (at::Tensor weight : {bytes_->weight, positions_, head_->weight})
      Normal(weight, kInitialDeviation);
  }

  // tokens: int64 (samples, positions), positions at most the context; returns logits (samples,
  // positions, vocabulary).
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = bytes_(tokens) + positions_.narrow(0, 0, tokens.size(1));
    x = at::dropout(x, shape_.dropout, is_training());
    for (const auto& block : *blocks_) x = block->as<Block>()->forward(x);
    return head_(norm_(x));
  }

 private:
  const Shape shape_;
  torch::nn::Embedding bytes_{nullptr};
  at::Tensor positions_;
  torch::nn::ModuleList blocks_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(Model);

// Bytes as int64 values at `out`.
void Widen(std::string_view bytes, int64_t* out) {
  for (unsigned char c : bytes) *out++ = c;
}

// The smallest byte whose cumulated probability exceeds u, which is in [0, 1).
unsigned char Draw(const at::Tensor& probabilities, double u) {
  const float* p = probabilities.const_data_ptr<float>();
  double sum = 0;
  for (int64_t c = 0; c < kVocabulary; ++c) {
    sum += static_cast<double>(p[c]);
    if (u < sum) return static_cast<unsigned char>(c);
  }
  return static_cast<unsigned char>(kVocabulary - 1);
}

class CodeLm final : public Task, public Evaluates, public Generates {
 public:
  CodeLm(const Shape& shape, int32_t threads, Corpus corpus, CopyCounter& copied)
      : shape_(shape),
        corpus_(std::move(corpus.bytes)),
        left_out_(std::move(corpus.left_out)),
        hash_(ContentHash({corpus_})),
        model_(shape),
        flat_(model_.ptr(), threads, copied) {}

  std::vector<TensorSpec> Tensors() const override { return flat_.tensors(); }
  std::string DataHash() const override { return hash_; }
  std::string DataLeftOut() const override { return left_out_; }
  absl::Status Bind(const FlatSpace& space) override { return flat_.Bind(space); }

  uint64_t SampleCount() const override {
    return (corpus_.size() - static_cast<size_t>(shape_.context) - 1) /
               static_cast<size_t>(shape_.stride) +
           1;
  }

  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) override {
    absl::Status stored;
    MUSTER_RETURN_IF_ERROR(CatchTorch([&] {
      SeedTorch(seed);
      stored = flat_.Store(*Model(shape_), parameters);
    }));
    return stored;
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    MUSTER_RETURN_IF_ERROR(CheckLane(input, sink, flat_.space(), SampleCount()));
    const int64_t weight = static_cast<int64_t>(input.samples.size()) * shape_.context;
    at::Tensor tokens;
    return flat_.Run(input, sink,
                     {.make_batch = [&] { tokens = Tokens(input.samples); },
                      .weight = [&] { return weight; },
                      .loss = [&] { return LossOf(Logits(tokens), Next(tokens)); }});
  }

  std::vector<TaskMetric> Metrics() const override {
    return {{"loss"}, {"perplexity", TaskMetricKind::kExpOfMean}, {"accuracy"}};
  }

  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> parameters) override {
    MUSTER_RETURN_IF_ERROR(CheckSamples(samples, SampleCount()));
    std::vector<TaskMetricSum> sums;
    MUSTER_RETURN_IF_ERROR(flat_.Evaluate(parameters, [&] {
      const at::Tensor tokens = Tokens(samples);
      const at::Tensor logits = Logits(tokens), next = Next(tokens);
      const auto bytes = static_cast<double>(next.numel());
      const double loss = LossOf(logits, next).item<double>();
      const double right = logits.argmax(1).eq(next).sum().item<double>();
      sums = {{loss, bytes}, {loss, bytes}, {right, bytes}};
    }));
    return sums;
  }

  absl::StatusOr<std::string> Generate(absl::Span<const float> parameters,
                                       const std::string& prompt, size_t bytes,
                                       uint64_t seed) override {
    std::string text = prompt.empty() ? SomewhereInTheCorpus(seed) : prompt;
    const size_t begin = text.size();
    MUSTER_RETURN_IF_ERROR(flat_.Evaluate(parameters, [&] {
      while (text.size() - begin < bytes) {
        const uint64_t random = Mix64(seed, text.size());
        text.push_back(
            static_cast<char>(Draw(NextByte(text), static_cast<double>(random >> 11) * 0x1p-53)));
      }
    }));
    return text.substr(begin);
  }

 private:
  // One row of context + 1 bytes for each sample.
  at::Tensor Tokens(absl::Span<const uint64_t> samples) const {
    const int64_t length = shape_.context + 1;
    at::Tensor tokens = at::empty({static_cast<int64_t>(samples.size()), length}, at::kLong);
    int64_t* out = tokens.mutable_data_ptr<int64_t>();
    for (size_t i = 0; i < samples.size(); ++i) {
      const size_t at = static_cast<size_t>(samples[i]) * static_cast<size_t>(shape_.stride);
      Widen(std::string_view(corpus_).substr(at, static_cast<size_t>(length)),
            out + static_cast<int64_t>(i) * length);
    }
    return tokens;
  }

  // A row for each byte that is to be foretold.
  at::Tensor Logits(const at::Tensor& tokens) {
    return model_(tokens.narrow(1, 0, shape_.context)).reshape({-1, kVocabulary});
  }
  at::Tensor Next(const at::Tensor& tokens) const {
    return tokens.narrow(1, 1, shape_.context).reshape({-1});
  }
  static at::Tensor LossOf(const at::Tensor& logits, const at::Tensor& next) {
    return at::cross_entropy_loss(logits, next, {}, at::Reduction::Sum);
  }

  // A stretch to go on from, up to the end of a line where it has one.
  std::string SomewhereInTheCorpus(uint64_t seed) const {
    const uint64_t sample = Mix64(seed, 0) % SampleCount();
    const std::string text = corpus_.substr(sample * static_cast<uint64_t>(shape_.stride),
                                            static_cast<size_t>(shape_.context));
    const size_t end = text.rfind('\n');
    return end == std::string::npos ? text : text.substr(0, end + 1);
  }

  // The distribution of what follows the last `context` bytes of `text`.
  at::Tensor NextByte(std::string_view text) {
    text.remove_prefix(text.size() - std::min(text.size(), static_cast<size_t>(shape_.context)));
    at::Tensor tokens = at::empty({1, static_cast<int64_t>(text.size())}, at::kLong);
    Widen(text, tokens.mutable_data_ptr<int64_t>());
    return at::softmax(model_(tokens).select(1, -1).flatten() / kTemperature, 0).contiguous();
  }

  const Shape shape_;
  const std::string corpus_;
  const std::string left_out_;
  const std::string hash_;
  Model model_;
  FlatModule flat_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeCodeLm(const TrainingSpec& training,
                                                 CopyCounter& copied) {
  const Shape shape = ReadShape(training);
  MUSTER_ASSIGN_OR_RETURN(Corpus corpus, ReadCorpus(training.data));
  if (corpus.bytes.size() < static_cast<size_t>(shape.context) + 1)
    return absl::InvalidArgumentError(absl::StrCat(
        "data.paths: ", Plural(static_cast<int64_t>(corpus.bytes.size()), "byte"),
        "; a sample of parameters.context ", shape.context, " needs ", shape.context + 1));
  MUSTER_RETURN_IF_ERROR(UseTorchHere(training.threads));
  std::unique_ptr<Task> task;
  MUSTER_RETURN_IF_ERROR(CatchTorch([&] {
    task = std::make_unique<CodeLm>(shape, training.threads, std::move(corpus), copied);
  }));
  return task;
}

}  // namespace muster::worker
