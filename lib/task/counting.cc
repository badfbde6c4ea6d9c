#include "lib/task/counting.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "lib/task/registry.h"

namespace muster {
namespace {

// The ids [first, first + count) that one tensor holds.
struct Part {
  uint64_t first = 0;
  uint64_t count = 0;
};

// About a half, a third and a sixth of n ids: sizes that rarely fill the 64-byte grid, so that
// layouts have holes.
std::vector<Part> Split(uint64_t n) {
  std::vector<Part> parts;
  uint64_t first = 0;
  for (uint64_t count : {(n + 1) / 2, n / 3}) {
    if (count == 0) continue;
    parts.push_back({first, count});
    first += count;
  }
  if (first < n) parts.push_back({first, n - first});
  return parts;
}

class Counting final : public Task {
 public:
  explicit Counting(uint64_t samples) : samples_(samples), parts_(Split(samples)) {}

  std::vector<TensorSpec> Tensors() const override {
    std::vector<TensorSpec> tensors;
    for (size_t i = 0; i < parts_.size(); ++i)
      tensors.push_back({absl::StrCat("count.", i), {static_cast<int64_t>(parts_[i].count)}});
    return tensors;
  }

  uint64_t SampleCount() const override { return samples_; }
  std::string DataHash() const override { return absl::StrCat("counting:", samples_); }

  absl::Status Bind(const FlatSpace& space) override {
    MUSTER_RETURN_IF_ERROR(CheckSpace(Tensors(), space));
    space_ = space;
    return absl::OkStatus();
  }

  absl::Status Initialize(uint64_t, absl::Span<float> parameters) override {
    std::fill(parameters.begin(), parameters.end(), 0.0f);
    return absl::OkStatus();
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    MUSTER_RETURN_IF_ERROR(CheckLane(input, sink, space_, samples_));
    LaneOutput output{.weight = static_cast<int64_t>(input.samples.size())};
    for (uint64_t id : input.samples)
      output.loss += static_cast<double>(input.parameters[PlaceOf(id)]);
    sink.outcome(output);
    for (size_t part = parts_.size();
         part-- > 0;) {  // the last tensor first, as backward passes do
      for (uint64_t id : input.samples)
        if (Holds(parts_[part], id)) sink.gradient[PlaceOf(id)] -= 1.0f;
      sink.ready(part);
    }
    return output;
  }

 private:
  static bool Holds(const Part& part, uint64_t id) {
    return id >= part.first && id - part.first < part.count;
  }

  size_t PlaceOf(uint64_t id) const {
    size_t part = 0;
    while (!Holds(parts_[part], id)) ++part;
    return static_cast<size_t>(space_.tensors[part].offset) +
           static_cast<size_t>(id - parts_[part].first);
  }

  const uint64_t samples_;
  const std::vector<Part> parts_;
  FlatSpace space_;
};

}  // namespace

std::unique_ptr<Task> MakeCounting(const TrainingSpec& training) {
  return std::make_unique<Counting>(
      training.data.samples == 0 ? FindTask("counting")->default_samples : training.data.samples);
}

}  // namespace muster
