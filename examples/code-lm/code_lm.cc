#include "code_lm.h"

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
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/corpus.h"
#include "muster/torch/module_task.h"

namespace code_lm {
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

Shape ShapeOf(const muster::TaskOptions& options) {
  const int64_t context = options.Integer("context"), stride = options.Integer("stride");
  return {.layers = options.Integer("layers"),
          .width = options.Integer("width"),
          .heads = options.Integer("heads"),
          .context = context,
          .stride = stride == 0 ? context : stride,
          .dropout = options.Real("dropout")};
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

// Who generates from a prompt needs nothing of it.
muster::Corpus ReadEnough(const muster::TaskOptions& options, int64_t context) {
  if (options.part == muster::DataPart::kNone) return {};
  muster::Corpus corpus = muster::ValueOrThrow(muster::ReadCorpus(options.DataOfPart()));
  const size_t bytes = corpus.bytes.size();
  if (bytes < static_cast<size_t>(context) + 1)
    throw muster::TaskError(absl::InvalidArgumentError(
        "data.paths: " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") +
        "; a sample of parameters.context " + std::to_string(context) + " needs " +
        std::to_string(context + 1)));
  return corpus;
}

class CodeLm final : public muster::torch::ModuleTask<Model>, public muster::Generates {
 public:
  explicit CodeLm(const muster::TaskOptions& options)
      : CodeLm(options, ReadEnough(options, ShapeOf(options).context)) {}

  std::string DataHash() const override { return hash_; }
  std::string DataLeftOut() const override { return corpus_.left_out; }

  uint64_t SampleCount() const override {
    return (corpus_.bytes.size() - static_cast<size_t>(shape_.context) - 1) /
               static_cast<size_t>(shape_.stride) +
           1;
  }

  // One row of context + 1 bytes for each sample.
  Tensors MakeBatch(const at::Tensor& samples) override {
    if (const absl::Status changed = corpus_.check_files(); !changed.ok())
      throw muster::TaskError(changed);
    const int64_t length = shape_.context + 1;
    at::Tensor tokens = at::empty({samples.numel(), length}, at::kLong);
    const int64_t* ids = samples.const_data_ptr<int64_t>();
    int64_t* out = tokens.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < samples.numel(); ++i) {
      const auto at = static_cast<size_t>(ids[i] * shape_.stride);
      Widen(std::string_view(corpus_.bytes).substr(at, static_cast<size_t>(length)),
            out + i * length);
    }
    return {tokens};
  }

  int64_t Weight(const Tensors& batch) const override { return batch[0].size(0) * shape_.context; }

  at::Tensor Loss(Model& model, const Tensors& batch) override {
    return LossOf(Logits(model, batch[0]), Next(batch[0]));
  }

  std::vector<muster::TaskMetric> Metrics() const override {
    return {{"loss"}, {"perplexity", muster::TaskMetricKind::kExpOfMean}, {"accuracy"}};
  }

  std::vector<muster::TaskMetricSum> Measure(Model& model, const Tensors& batch) override {
    const at::Tensor logits = Logits(model, batch[0]), next = Next(batch[0]);
    const auto bytes = static_cast<double>(next.numel());
    const double loss = LossOf(logits, next).item<double>();
    const double right = logits.argmax(1).eq(next).sum().item<double>();
    return {{loss, bytes}, {loss, bytes}, {right, bytes}};
  }

  absl::StatusOr<std::string> Generate(absl::Span<const float> parameters,
                                       const std::string& prompt, size_t bytes, uint64_t seed,
                                       const muster::TextListener& told) override {
    if (prompt.empty() && corpus_.bytes.empty())
      return absl::FailedPreconditionError("give what the text goes on from (--prompt)");
    std::mt19937_64 random(seed);
    std::string text = prompt.empty() ? SomewhereInTheCorpus(random()) : prompt;
    const size_t begin = text.size();
    const absl::Status done = WithState(parameters, [&] {
      while (text.size() - begin < bytes) {
        text.push_back(
            static_cast<char>(Draw(NextByte(text), static_cast<double>(random() >> 11) * 0x1p-53)));
        muster::ThrowIfError(told(absl::string_view(text).substr(text.size() - 1)));
      }
    });
    if (!done.ok()) return done;
    return text.substr(begin);
  }

 private:
  CodeLm(const muster::TaskOptions& options, muster::Corpus corpus)
      : ModuleTask(options, [shape = ShapeOf(options)] { return Model(shape); }),
        shape_(ShapeOf(options)),
        corpus_(std::move(corpus)),
        hash_(muster::ContentHash({corpus_.bytes})) {}

  // A row for each byte that is to be foretold.
  at::Tensor Logits(Model& model, const at::Tensor& tokens) const {
    return model(tokens.narrow(1, 0, shape_.context)).reshape({-1, kVocabulary});
  }
  at::Tensor Next(const at::Tensor& tokens) const {
    return tokens.narrow(1, 1, shape_.context).reshape({-1});
  }
  static at::Tensor LossOf(const at::Tensor& logits, const at::Tensor& next) {
    return at::cross_entropy_loss(logits, next, {}, at::Reduction::Sum);
  }

  // A stretch to go on from, up to the end of a line where it has one.
  std::string SomewhereInTheCorpus(uint64_t random) const {
    const uint64_t sample = random % SampleCount();
    const std::string text = corpus_.bytes.substr(sample * static_cast<uint64_t>(shape_.stride),
                                                  static_cast<size_t>(shape_.context));
    const size_t end = text.rfind('\n');
    return end == std::string::npos ? text : text.substr(0, end + 1);
  }

  // The distribution of what follows the last `context` bytes of `text`.
  at::Tensor NextByte(std::string_view text) {
    text.remove_prefix(text.size() - std::min(text.size(), static_cast<size_t>(shape_.context)));
    at::Tensor tokens = at::empty({1, static_cast<int64_t>(text.size())}, at::kLong);
    Widen(text, tokens.mutable_data_ptr<int64_t>());
    return at::softmax(net()(tokens).select(1, -1).flatten() / kTemperature, 0).contiguous();
  }

  const Shape shape_;
  const muster::Corpus corpus_;
  const std::string hash_;
};

}  // namespace

std::unique_ptr<muster::Task> Make(const muster::TaskOptions& options) {
  return std::make_unique<CodeLm>(options);
}

}  // namespace code_lm
