#include "tests/parity/transformer_parity.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/modules/transformer.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "examples/transformer/random_sequences.h"
#include "lib/domain/samples.h"
#include "lib/optim/optim.h"
#include "tests/worker/tasks/lane_rig.h"
#include "worker/tasks/make_task.h"

namespace muster::parity {
namespace {

using worker::FlatMemory;
using worker::LaneRig;

std::vector<uint64_t> SamplesOf(const TrainingSpec& training, int64_t step, Feed feed) {
  if (feed == Feed::kAsTheJob)
    return SampleIds(training, training.data.samples,
                     StepSamples(training, training.data.samples, Step(step)));
  std::vector<uint64_t> samples;
  for (int64_t i = 0; i < training.batch; ++i)
    samples.push_back(static_cast<uint64_t>(step * training.batch + i) % training.data.samples);
  return samples;
}

uint64_t SeedOf(const TrainingSpec& training, int64_t step, Feed feed) {
  return feed == Feed::kAsTheJob ? LaneSeed(training.seed, Step(step), LaneId(0))
                                 : static_cast<uint64_t>(step);
}

int64_t Whole(const TrainingSpec& training, const char* name) {
  return static_cast<int64_t>(std::get<double>(training.parameters.at(name)));
}

torch::nn::Transformer PlainModel(const TrainingSpec& training) {
  return torch::nn::Transformer(
      torch::nn::TransformerOptions(Whole(training, "width"), Whole(training, "heads"))
          .num_encoder_layers(Whole(training, "encoder_layers"))
          .num_decoder_layers(Whole(training, "decoder_layers"))
          .dim_feedforward(Whole(training, "feedforward"))
          .dropout(std::get<double>(training.parameters.at("dropout"))));
}

// The initial weights that our job starts from, by name.
void CopyInitialWeights(const TrainingSpec& training, torch::nn::Module& model) {
  LaneRig rig(worker::MakeTask(training).value(), training.seed);
  torch::NoGradGuard no_grad;
  auto parameters = model.named_parameters();
  MUSTER_CHECK(parameters.size() == rig.layout().tensors().size());
  for (const Placed& p : rig.layout().tensors())
    parameters[p.spec.name].copy_(
        at::from_blob(rig.parameters().data() + p.offset, p.spec.shape, at::kFloat));
}

// As (length, samples, width).
at::Tensor Batch(const at::Tensor& data, const std::vector<uint64_t>& samples) {
  const std::vector<int64_t> ids(samples.begin(), samples.end());
  return data.index_select(0, at::tensor(ids)).transpose(0, 1);
}

// Adam (Kingma and Ba, 2015), one tensor operation for each of its own. LibTorch's square root of
// fp32 tensors is a vector library's, which rounds some the other way.
class WrittenOutAdam {
 public:
  WrittenOutAdam(const OptimizerSpec& spec, double learning_rate)
      : spec_(spec), learning_rate_(learning_rate) {}

  void Step(const std::vector<at::Tensor>& parameters) {
    torch::NoGradGuard no_grad;
    ++steps_;
    const double correction1 = 1 - std::pow(spec_.beta1, steps_);
    const double correction2 = 1 - std::pow(spec_.beta2, steps_);
    mean_.resize(parameters.size());
    square_.resize(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor gradient = parameters[i].grad();
      if (!gradient.defined()) continue;
      if (steps_ == 1) mean_[i] = at::zeros_like(gradient);
      if (steps_ == 1) square_[i] = at::zeros_like(gradient);
      mean_[i] = mean_[i] * spec_.beta1 + gradient * (1 - spec_.beta1);
      square_[i] = square_[i] * spec_.beta2 + gradient * (1 - spec_.beta2) * gradient;
      const at::Tensor exact = square_[i].to(at::kDouble).sqrt().to(at::kFloat);
      const at::Tensor root = exact / std::sqrt(correction2) + spec_.epsilon;
      at::Tensor parameter = parameters[i];
      parameter += mean_[i] * -(learning_rate_ / correction1) / root;
    }
  }

 private:
  const OptimizerSpec spec_;
  const double learning_rate_;
  int steps_ = 0;
  std::vector<at::Tensor> mean_, square_;
};

}  // namespace

std::vector<double> OurLosses(const TrainingSpec& training, int64_t steps) {
  LaneRig rig(worker::MakeTask(training).value(), training.seed);
  FlatMemory gradient = rig.Memory(), average = rig.Memory(), average_of_squares = rig.Memory();
  const Slots slots = {average.span(), average_of_squares.span()};
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const LaneOutput output = rig.Run(SamplesOf(training, step, Feed::kInOrder),
                                      SeedOf(training, step, Feed::kInOrder), gradient)
                                  .value();
    losses.push_back(output.loss / static_cast<double>(output.weight));
    for (float& g : gradient.span()) g /= static_cast<float>(output.weight);
    ApplyUpdate(training.optimizer, step, training.optimizer.learning_rate, gradient.span(),
                rig.parameters().span(), rig.parameters().span(), slots);
  }
  return losses;
}

std::vector<double> LibTorchLosses(const TrainingSpec& training, int64_t steps,
                                   double learning_rate, AdamBy by, Feed feed) {
  torch::nn::Transformer model = PlainModel(training);
  CopyInitialWeights(training, *model);
  const transformer::RandomSequences data = transformer::MakeRandomSequences(
      {static_cast<int64_t>(training.data.samples), Whole(training, "source_length"),
       Whole(training, "target_length"), Whole(training, "width")},
      training.seed);
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(learning_rate));
  WrittenOutAdam written_out(training.optimizer, learning_rate);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<uint64_t> samples = SamplesOf(training, step, feed);
    const at::Tensor target = Batch(data.target, samples);
    torch::manual_seed(SeedOf(training, step, feed));
    adam.zero_grad();
    const at::Tensor output = model(Batch(data.source, samples), target);
    const at::Tensor labels = at::argmax(target, 2).flatten();
    const at::Tensor loss =
        at::cross_entropy_loss(output.flatten(0, 1), labels, {}, at::Reduction::Sum);
    loss.backward();
    // The gradient of the sum, divided: the mean's own differs by a rounding, and Adam makes whole
    // steps of gradients that are nothing but rounding.
    for (const at::Tensor& p : model->parameters())
      if (p.grad().defined()) p.grad().div_(static_cast<double>(labels.numel()));
    by == AdamBy::kOptimizer ? (void)adam.step() : written_out.Step(model->parameters());
    losses.push_back(loss.item<double>() / static_cast<double>(labels.numel()));
  }
  return losses;
}

double LargestRelativeDifference(const std::vector<double>& ours,
                                 const std::vector<double>& theirs) {
  MUSTER_CHECK(ours.size() == theirs.size());
  double largest = 0;
  for (size_t i = 0; i < ours.size(); ++i)
    largest = std::max(largest, std::abs(ours[i] - theirs[i]) / std::abs(theirs[i]));
  return largest;
}

}  // namespace muster::parity
