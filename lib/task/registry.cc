#include "lib/task/registry.h"

#include "examples/code-lm/code_lm.h"
#include "examples/transformer/transformer.h"
#include "muster/loss_parameters.h"

namespace muster {
namespace {

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

}  // namespace

const std::vector<TaskInfo>& Tasks() {
  static const auto& tasks =
      *new std::vector<TaskInfo>{code_lm::Info("code-lm"), Counting(), Layers(), TorchScript(),
                                 transformer::Info("transformer")};
  return tasks;
}

const TaskInfo* FindTask(absl::string_view name) {
  for (const TaskInfo& task : Tasks())
    if (task.name == name) return &task;
  return nullptr;
}

bool BringsItsModel(absl::string_view task) { return task == "layers" || task == "torchscript"; }

}  // namespace muster
