// The counting task, for others to change a part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/task/counting.h"

namespace muster {

class AroundCounting : public Task {
 public:
  explicit AroundCounting(const TrainingSpec& training) : counting_(MakeCounting(training)) {}

  std::vector<TensorSpec> Tensors() const override { return counting_->Tensors(); }
  uint64_t SampleCount() const override { return counting_->SampleCount(); }
  std::string DataHash() const override { return counting_->DataHash(); }
  absl::Status Bind(const FlatSpace& space) override { return counting_->Bind(space); }
  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) override {
    return counting_->Initialize(seed, parameters);
  }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    return counting_->RunLane(input, std::move(sink));
  }

 private:
  const std::unique_ptr<Task> counting_;
};

}  // namespace muster
