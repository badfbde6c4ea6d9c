#include "transformer.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <torch/nn/modules/transformer.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/corpus.h"
#include "muster/torch/module_task.h"
#include "random_sequences.h"

namespace transformer {
namespace {

using torch::nn::Transformer;

std::string_view BytesOf(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class TransformerTask final : public muster::torch::ModuleTask<Transformer> {
 public:
  explicit TransformerTask(const muster::TaskOptions& options)
      : ModuleTask(options, [options] { return MakeModel(options); }),
        width_(options.Integer("width")),
        target_length_(options.Integer("target_length")),
        data_(MakeRandomSequences({static_cast<int64_t>(options.data.samples),
                                   options.Integer("source_length"), target_length_, width_},
                                  options.seed)),
        labels_(at::argmax(data_.target, 2)),
        hash_(muster::ContentHash({BytesOf(data_.source), BytesOf(data_.target)})) {}

  uint64_t SampleCount() const override { return static_cast<uint64_t>(data_.source.size(0)); }
  std::string DataHash() const override { return hash_; }

  // Source, target, and labels of the target's positions; each with the positions first, then the
  // samples.
  Tensors MakeBatch(const at::Tensor& samples) override {
    return {data_.source.index_select(0, samples).transpose(0, 1),
            data_.target.index_select(0, samples).transpose(0, 1),
            labels_.index_select(0, samples).transpose(0, 1)};
  }

  int64_t Weight(const Tensors& batch) const override { return batch[2].numel(); }

  at::Tensor Loss(Transformer& model, const Tensors& batch) override {
    return at::cross_entropy_loss(model(batch[0], batch[1]).reshape({-1, width_}),
                                  batch[2].reshape({-1}), {}, at::Reduction::Sum);
  }

 private:
  static Transformer MakeModel(const muster::TaskOptions& options) {
    return Transformer(
        torch::nn::TransformerOptions(options.Integer("width"), options.Integer("heads"))
            .num_encoder_layers(options.Integer("encoder_layers"))
            .num_decoder_layers(options.Integer("decoder_layers"))
            .dim_feedforward(options.Integer("feedforward"))
            .dropout(options.Real("dropout")));
  }

  const int64_t width_;
  const int64_t target_length_;
  const RandomSequences data_;
  const at::Tensor labels_;  // (samples, target_length)
  const std::string hash_;
};

}  // namespace

std::unique_ptr<muster::Task> Make(const muster::TaskOptions& options) {
  return std::make_unique<TransformerTask>(options);
}

}  // namespace transformer
