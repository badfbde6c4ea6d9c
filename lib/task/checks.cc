#include "lib/task/checks.h"

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status CheckSpace(const std::vector<TensorSpec>& tensors, const FlatSpace& space) {
  if (space.tensors.size() != tensors.size())
    return absl::InvalidArgumentError(absl::StrCat("the layout has ", space.tensors.size(),
                                                   " tensors, the task has ", tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (space.tensors[i].spec != tensors[i])
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", i, ": the layout has '", space.tensors[i].spec.name,
                       "', the task has '", tensors[i].name, "', or their shapes or types differ"));
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(absl::Span<const uint64_t> samples, uint64_t sample_count) {
  if (samples.empty()) return absl::InvalidArgumentError("an empty lane must not be run");
  for (const uint64_t id : samples) {
    if (id >= sample_count)
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", id, " is not in a data set of ", sample_count));
  }
  return absl::OkStatus();
}

absl::Status CheckLane(const LaneInput& input, const GradientSink& sink, const FlatSpace& space,
                       uint64_t sample_count) {
  const size_t elements = static_cast<size_t>(space.elements);
  if (elements == 0) return absl::InvalidArgumentError("the task is not bound to a layout");
  if (input.parameters.size() != elements || sink.gradient.size() != elements)
    return absl::InvalidArgumentError(absl::StrCat("spans of ", input.parameters.size(), " and ",
                                                   sink.gradient.size(),
                                                   " elements, the layout has ", elements));
  return CheckSamples(input.samples, sample_count);
}

}  // namespace muster
