// A task bound to its layout, with memory to run lanes in. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/domain/layout.h"
#include "muster/task.h"

namespace muster::worker {

// Zeroed fp32 memory at an address that is a multiple of 64 bytes, `lines` such multiples behind a
// page's start.
class FlatMemory {
 public:
  explicit FlatMemory(int64_t elements, size_t lines = 0)
      : size_(static_cast<size_t>(elements)), lines_(lines) {
    const size_t bytes = size_ * sizeof(float) + lines * 64;
    base_.reset(static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
    MUSTER_CHECK(base_ != nullptr);
    Zero();
  }
  FlatMemory(const FlatMemory& other) : FlatMemory(other, other.lines_) {}
  FlatMemory(const FlatMemory& other, size_t lines)
      : FlatMemory(static_cast<int64_t>(other.size_), lines) {
    std::memcpy(data(), other.data(), size_ * sizeof(float));
  }
  FlatMemory& operator=(const FlatMemory&) = delete;

  float* data() const { return reinterpret_cast<float*>(base_.get() + lines_ * 64); }
  absl::Span<float> span() const { return {data(), size_}; }
  void Zero() { std::memset(data(), 0, size_ * sizeof(float)); }
  bool SameBits(const FlatMemory& other) const {
    return size_ == other.size_ && std::memcmp(data(), other.data(), size_ * sizeof(float)) == 0;
  }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  size_t size_;
  size_t lines_;
  std::unique_ptr<char, Free> base_;
};

class LaneRig {
 public:
  explicit LaneRig(std::unique_ptr<Task> task, uint64_t seed = 1)
      : task_(std::move(task)),
        layout_(Layout::Make(task_->Tensors(), 4096).value()),
        parameters_(layout_.elements()) {
    MUSTER_CHECK(task_->Bind(layout_.space()).ok());
    MUSTER_CHECK(task_->Initialize(seed, parameters_.span()).ok());
  }

  Task& task() { return *task_; }
  const Layout& layout() const { return layout_; }
  FlatMemory& parameters() { return parameters_; }
  FlatMemory Memory(size_t lines = 0) const { return FlatMemory(layout_.elements(), lines); }

  // Runs a lane from the rig's parameters into `gradient`, which is zeroed before.
  absl::StatusOr<LaneOutput> Run(const std::vector<uint64_t>& samples, uint64_t seed,
                                 FlatMemory& gradient) {
    return Run(samples, seed, gradient, parameters_, [](size_t) {});
  }
  absl::StatusOr<LaneOutput> Run(const std::vector<uint64_t>& samples, uint64_t seed,
                                 FlatMemory& gradient, const FlatMemory& parameters,
                                 std::function<void(size_t)> ready) {
    gradient.Zero();
    std::vector<LaneOutput> outcomes;
    auto announce = [&](size_t tensor) {
      EXPECT_EQ(outcomes.size(), 1u) << "announced before the outcome";
      ready(tensor);
    };
    auto output =
        task_->RunLane({.seed = seed, .samples = samples, .parameters = parameters.span()},
                       {gradient.span(), [&](LaneOutput o) { outcomes.push_back(o); }, announce});
    if (output.ok()) {
      EXPECT_EQ(outcomes.size(), 1u);
      EXPECT_EQ(outcomes.back().weight, output->weight);
      EXPECT_EQ(outcomes.back().loss, output->loss);
    }
    return output;
  }

 private:
  std::unique_ptr<Task> task_;
  Layout layout_;
  FlatMemory parameters_;
};

}  // namespace muster::worker
