#include "lib/task/registry.h"

#include "muster/loss_parameters.h"

namespace muster {
namespace {

TaskInfo CodeLm() {
  return {
      .name = "code-lm",
      .help = "byte-level language model (decoder-only Transformer) on any files",
      .parameters =
          {TaskParameter::Integer("layers", 4, 1, 256, "Transformer blocks"),
           TaskParameter::Integer("width", 192, 1, 65536,
                                  "size of a position's vector; a multiple of heads"),
           TaskParameter::Integer("heads", 6, 1, 1024, "attention heads"),
           TaskParameter::Integer("context", 128, 1, 65536, "bytes that the model sees at once"),
           TaskParameter::Real("dropout", 0.1, 0, 0.9, "share of activations dropped in training"),
           TaskParameter::Integer("stride", 0, 0, 1 << 20,
                                  "bytes from one sample's start to the next one's; 0: context")},
      .data_needed = true,
      .multiple = "width",
      .divisor = "heads"};
}

TaskInfo Counting() {
  return {.name = "counting",
          .help =
              "one weight per sample id, which says how often the sample was used; for checking "
              "Muster itself",
          .default_samples = 1009};
}

TaskInfo Layers() {
  return {.name = "layers",
          .help = "a list of layers, a loss by name, and a data set with labels",
          .parameters = WithLossParameters({TaskParameter::Structure(
              "layers", "[]", "names of layers, each with what it takes")}),
          .data_needed = true};
}

TaskInfo TorchScript() {
  return {.name = "torchscript",
          .help = "a TorchScript file, a loss by name, and a data set with labels",
          .parameters = WithLossParameters({TaskParameter::Text(
              "file", "", {}, "a name in a folder of --plugins; what torch.jit.save writes")}),
          .data_needed = true};
}

TaskInfo Transformer() {
  return {
      .name = "transformer",
      .help = "LibTorch's nn::Transformer on random data made in memory; for measuring",
      .parameters =
          {TaskParameter::Integer("width", 512, 1, 65536,
                                  "size of a position's vector; a multiple of heads"),
           TaskParameter::Integer("heads", 8, 1, 1024, "attention heads"),
           TaskParameter::Integer("encoder_layers", 6, 1, 256, "blocks of the encoder"),
           TaskParameter::Integer("decoder_layers", 6, 1, 256, "blocks of the decoder"),
           TaskParameter::Integer("feedforward", 2048, 1, 1 << 20,
                                  "inner size of a block's feed-forward part"),
           TaskParameter::Integer("source_length", 1, 1, 65536, "positions of a source sequence"),
           TaskParameter::Integer("target_length", 20, 1, 65536, "positions of a target sequence"),
           TaskParameter::Real("dropout", 0.1, 0, 0.9, "share of activations dropped in training")},
      .default_samples = 2048,
      .multiple = "width",
      .divisor = "heads"};
}

}  // namespace

const std::vector<TaskInfo>& Tasks() {
  static const auto& tasks =
      *new std::vector<TaskInfo>{CodeLm(), Counting(), Layers(), TorchScript(), Transformer()};
  return tasks;
}

const TaskInfo* FindTask(absl::string_view name) {
  for (const TaskInfo& task : Tasks())
    if (task.name == name) return &task;
  return nullptr;
}

bool BringsItsModel(absl::string_view task) { return task == "layers" || task == "torchscript"; }

}  // namespace muster
