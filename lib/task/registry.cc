#include "lib/task/registry.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr bool kInteger = true;
constexpr bool kReal = false;

TaskInfo CodeLm() {
  return {
      .name = "code-lm",
      .help = "byte-level language model (decoder-only Transformer) on any files",
      .parameters = {{"layers", 4, 1, 256, kInteger, "Transformer blocks"},
                     {"width", 192, 1, 65536, kInteger,
                      "size of a position's vector; a multiple of heads"},
                     {"heads", 6, 1, 1024, kInteger, "attention heads"},
                     {"context", 128, 1, 65536, kInteger, "bytes that the model sees at once"},
                     {"dropout", 0.1, 0, 0.9, kReal, "share of activations dropped in training"},
                     {"stride", 0, 0, 1 << 20, kInteger,
                      "bytes from one sample's start to the next one's; 0: context"}},
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

TaskInfo Transformer() {
  return {
      .name = "transformer",
      .help = "LibTorch's nn::Transformer on random data made in memory; for measuring",
      .parameters = {{"width", 512, 1, 65536, kInteger,
                      "size of a position's vector; a multiple of heads"},
                     {"heads", 8, 1, 1024, kInteger, "attention heads"},
                     {"encoder_layers", 6, 1, 256, kInteger, "blocks of the encoder"},
                     {"decoder_layers", 6, 1, 256, kInteger, "blocks of the decoder"},
                     {"feedforward", 2048, 1, 1 << 20, kInteger,
                      "inner size of a block's feed-forward part"},
                     {"source_length", 1, 1, 65536, kInteger, "positions of a source sequence"},
                     {"target_length", 20, 1, 65536, kInteger, "positions of a target sequence"},
                     {"dropout", 0.1, 0, 0.9, kReal, "share of activations dropped in training"}},
      .default_samples = 2048,
      .multiple = "width",
      .divisor = "heads"};
}

}  // namespace

const TaskParameter* TaskInfo::Parameter(absl::string_view parameter) const {
  auto it = std::find_if(parameters.begin(), parameters.end(),
                         [&](const auto& p) { return p.name == parameter; });
  return it == parameters.end() ? nullptr : &*it;
}

std::optional<ParameterConflict> TaskInfo::Conflict(
    const std::map<std::string, double>& values) const {
  if (multiple.empty() || std::fmod(values.at(multiple), values.at(divisor)) == 0)
    return std::nullopt;
  return ParameterConflict{divisor,
                           absl::StrCat(values.at(divisor), " does not divide ", multiple, " (",
                                        values.at(multiple), "); choose a divisor of it")};
}

const std::vector<TaskInfo>& Tasks() {
  static const auto& tasks = *new std::vector<TaskInfo>{CodeLm(), Counting(), Transformer()};
  return tasks;
}

const TaskInfo* FindTask(absl::string_view name) {
  for (const TaskInfo& task : Tasks())
    if (task.name == name) return &task;
  return nullptr;
}

}  // namespace muster
