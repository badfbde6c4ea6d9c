#include "worker/tasks/transformer.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/modules/transformer.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "lib/task/registry.h"
#include "muster/corpus.h"
#include "worker/tasks/random_sequences.h"
#include "worker/torch/flat_module.h"
#include "worker/torch/numerics.h"

namespace muster::worker {
namespace {

struct Shape {
  int64_t width = 0;
  int64_t heads = 0;
  int64_t encoder_layers = 0;
  int64_t decoder_layers = 0;
  int64_t feedforward = 0;
  int64_t source_length = 0;
  int64_t target_length = 0;
  double dropout = 0;
};

Shape ReadShape(const TrainingSpec& training) {
  const auto whole = [&](const char* name) {
    return static_cast<int64_t>(std::get<double>(training.parameters.at(name)));
  };
  return {.width = whole("width"),
          .heads = whole("heads"),
          .encoder_layers = whole("encoder_layers"),
          .decoder_layers = whole("decoder_layers"),
          .feedforward = whole("feedforward"),
          .source_length = whole("source_length"),
          .target_length = whole("target_length"),
          .dropout = std::get<double>(training.parameters.at("dropout"))};
}

torch::nn::Transformer MakeModel(const Shape& shape) {
  return torch::nn::Transformer(torch::nn::TransformerOptions(shape.width, shape.heads)
                                    .num_encoder_layers(shape.encoder_layers)
                                    .num_decoder_layers(shape.decoder_layers)
                                    .dim_feedforward(shape.feedforward)
                                    .dropout(shape.dropout));
}

std::string_view BytesOf(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class Transformer final : public Task, public Evaluates {
 public:
  Transformer(const Shape& shape, int64_t samples, const TrainingSpec& training,
              CopyCounter& copied)
      : shape_(shape),
        data_(MakeRandomSequences({samples, shape.source_length, shape.target_length, shape.width},
                                  training.seed)),
        labels_(at::argmax(data_.target, 2)),
        hash_(ContentHash({BytesOf(data_.source), BytesOf(data_.target)})),
        model_(MakeModel(shape)),
        flat_(model_.ptr(), training.threads, copied) {}

  std::vector<TensorSpec> Tensors() const override { return flat_.tensors(); }
  uint64_t SampleCount() const override { return static_cast<uint64_t>(data_.source.size(0)); }
  std::string DataHash() const override { return hash_; }
  absl::Status Bind(const FlatSpace& space) override { return flat_.Bind(space); }

  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) override {
    absl::Status stored;
    MUSTER_RETURN_IF_ERROR(CatchTorch([&] {
      SeedTorch(seed);
      stored = flat_.Store(*MakeModel(shape_), parameters);
    }));
    return stored;
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    MUSTER_RETURN_IF_ERROR(CheckLane(input, sink, flat_.space(), SampleCount()));
    const int64_t weight = static_cast<int64_t>(input.samples.size()) * shape_.target_length;
    Batch batch;
    return flat_.Run(input, sink,
                     {.make_batch = [&] { batch = MakeBatch(input.samples); },
                      .weight = [&] { return weight; },
                      .loss = [&] { return Loss(batch); }});
  }

  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }

  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> parameters) override {
    MUSTER_RETURN_IF_ERROR(CheckSamples(samples, SampleCount()));
    TaskMetricSum loss{.weight = static_cast<double>(samples.size()) *
                                 static_cast<double>(shape_.target_length)};
    MUSTER_RETURN_IF_ERROR(
        flat_.Evaluate(parameters, [&] { loss.sum = Loss(MakeBatch(samples)).item<double>(); }));
    return std::vector<TaskMetricSum>{loss};
  }

 private:
  struct Batch {  // positions first, then samples
    at::Tensor source, target, labels;
  };

  Batch MakeBatch(absl::Span<const uint64_t> samples) const {
    std::vector<int64_t> ids(samples.begin(), samples.end());
    const at::Tensor index =
        at::from_blob(ids.data(), {static_cast<int64_t>(ids.size())}, at::kLong);
    return {.source = data_.source.index_select(0, index).transpose(0, 1),
            .target = data_.target.index_select(0, index).transpose(0, 1),
            .labels = labels_.index_select(0, index).transpose(0, 1)};
  }

  at::Tensor Loss(const Batch& batch) {
    return at::cross_entropy_loss(model_(batch.source, batch.target).reshape({-1, shape_.width}),
                                  batch.labels.reshape({-1}), {}, at::Reduction::Sum);
  }

  const Shape shape_;
  const RandomSequences data_;
  const at::Tensor labels_;  // (samples, target_length)
  const std::string hash_;
  torch::nn::Transformer model_;
  FlatModule flat_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeTransformer(const TrainingSpec& training,
                                                      CopyCounter& copied) {
  const uint64_t samples =
      training.data.samples == 0 ? FindTask("transformer")->default_samples : training.data.samples;
  MUSTER_RETURN_IF_ERROR(UseTorchHere(training.threads));
  std::unique_ptr<Task> task;
  MUSTER_RETURN_IF_ERROR(CatchTorch([&] {
    task = std::make_unique<Transformer>(ReadShape(training), static_cast<int64_t>(samples),
                                         training, copied);
  }));
  return task;
}

}  // namespace muster::worker
