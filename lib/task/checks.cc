#include "lib/task/checks.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "lib/base/status.h"
#include "lib/task/model_size.h"
#include "lib/task/registry.h"

namespace muster {
namespace {

absl::Status CheckParameter(const TaskParameter& parameter, const TrainingSpec& training) {
  const auto it = training.parameters.find(parameter.name);
  if (it == training.parameters.end())
    return absl::InvalidArgumentError(absl::StrCat("parameters.", parameter.name, " is missing"));
  const double value = it->second;
  const bool in_range = value >= parameter.min && value <= parameter.max;
  if (in_range && (!parameter.integer || value == std::floor(value))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameters.", parameter.name, ": ", value, " is not a ", parameter.integer ? "whole " : "",
      "number from ", parameter.min, " to ", parameter.max));
}

}  // namespace

absl::Status CheckTask(const TrainingSpec& training) {
  const TaskInfo* info = FindTask(training.task);
  if (info == nullptr) {
    const auto name = [](std::string* out, const TaskInfo& t) { out->append(t.name); };
    return absl::InvalidArgumentError(absl::StrCat(
        "task: '", training.task, "' is unknown; there are ", absl::StrJoin(Tasks(), ", ", name)));
  }
  for (const TaskParameter& p : info->parameters)
    MUSTER_RETURN_IF_ERROR(CheckParameter(p, training));
  if (const auto conflict = info->Conflict(training.parameters))
    return absl::InvalidArgumentError(
        absl::StrCat("parameters.", conflict->parameter, ": ", conflict->reason));
  if (info->data_needed == training.data.paths.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("data.paths: the task ", info->name,
                     info->data_needed ? " reads files; name at least one file or directory"
                                       : " makes its own data; leave it empty"));
  return absl::OkStatus();
}

absl::Status CheckTaskFits(const TrainingSpec& training, int64_t memory) {
  std::optional<TooLarge> too_large = TooLargeForAJob(training);
  if (!too_large) too_large = TooLargeForAWorker(training, memory);
  if (!too_large) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(too_large->field, ": ", too_large->reason));
}

absl::Status CheckLayout(const std::vector<TensorSpec>& tensors, const Layout& layout) {
  if (layout.tensors().size() != tensors.size())
    return absl::InvalidArgumentError(absl::StrCat("the layout has ", layout.tensors().size(),
                                                   " tensors, the task has ", tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (layout.tensors()[i].spec != tensors[i])
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", i, ": the layout has '", layout.tensors()[i].spec.name,
                       "', the task has '", tensors[i].name, "', or their shapes differ"));
  }
  return absl::OkStatus();
}

absl::Status CheckLane(const LaneInput& input, const GradientSink& sink, const Layout& layout,
                       uint64_t sample_count) {
  const size_t elements = static_cast<size_t>(layout.elements());
  if (elements == 0) return absl::InvalidArgumentError("the task is not bound to a layout");
  if (input.parameters.size() != elements || sink.gradient.size() != elements)
    return absl::InvalidArgumentError(absl::StrCat("spans of ", input.parameters.size(), " and ",
                                                   sink.gradient.size(),
                                                   " elements, the layout has ", elements));
  if (input.samples.empty()) return absl::InvalidArgumentError("an empty lane must not be run");
  for (uint64_t id : input.samples) {
    if (id >= sample_count)
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", id, " is not in a data set of ", sample_count));
  }
  return absl::OkStatus();
}

}  // namespace muster
