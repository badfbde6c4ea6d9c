// A task without LibTorch whose lanes meet in phases. What a lane gives depends on every total that
// it got, so that a lost or repeated term shows in the bits. For tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/task/checks.h"
#include "muster/task.h"

namespace muster {

// What is wrong with a lane that has this sample.
enum class MeetingFault { kNone, kOtherOrder, kTwice, kEndsEarly, kNotFinite, kAllLeftOut };
inline constexpr uint64_t kFaultySample = 5;

class MeetingTask : public Task, public Syncs {
 public:
  MeetingTask(uint64_t samples, size_t phases, MeetingFault fault = MeetingFault::kNone)
      : samples_(samples), phases_(phases), fault_(fault) {}

  std::vector<TensorSpec> Tensors() const override {
    return {{"early", {kValues}}, {"late", {kValues}}, {"seen", {1}, TensorKind::kBuffer}};
  }
  // The second has more than a chunk of 64 bytes holds; no lane meets the last.
  std::vector<TensorSpec> Phases() const override {
    std::vector<TensorSpec> phases;
    for (size_t p = 0; p <= phases_; ++p)
      phases.push_back({absl::StrCat("sync/layer", p, "/forward"),
                        {p == 1 ? 37 : static_cast<int64_t>(p) + 3},
                        TensorKind::kPhase});
    return phases;
  }
  uint64_t SampleCount() const override { return samples_; }
  std::string DataHash() const override { return absl::StrCat("meeting:", samples_); }
  absl::Status Bind(const FlatSpace& space) override {
    MUSTER_RETURN_IF_ERROR(CheckSpace(Tensors(), space));
    space_ = space;
    return absl::OkStatus();
  }
  absl::Status Initialize(uint64_t, absl::Span<float> parameters) override {
    for (size_t tensor : {size_t{0}, size_t{1}})
      for (int64_t i = 0; i < kValues; ++i)
        parameters[At(tensor, i)] = 0.25F * static_cast<float>(i + 1);
    return absl::OkStatus();
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    MUSTER_RETURN_IF_ERROR(CheckLane(input, sink, space_, samples_));
    const bool faulty =
        std::find(input.samples.begin(), input.samples.end(), kFaultySample) != input.samples.end();
    const MeetingFault fault = faulty ? fault_ : MeetingFault::kNone;
    LaneOutput output{.weight = static_cast<int64_t>(input.samples.size())};
    if (fault == MeetingFault::kAllLeftOut) {
      output.weight = 0;
      output.left_out.resize(input.samples.size());
      std::iota(output.left_out.begin(), output.left_out.end(), 0U);
      sink.outcome(output);
      for (size_t tensor = 0; tensor < 3; ++tensor) sink.ready(tensor);
      return output;
    }
    std::vector<float> x(kValues);
    for (const uint64_t id : input.samples)
      for (int64_t i = 0; i < kValues; ++i)
        x[static_cast<size_t>(i)] +=
            input.parameters[At(0, i)] + input.parameters[At(1, i)] +
            static_cast<float>((id + 1) * (static_cast<uint64_t>(i) + 3) % 7);
    std::vector<size_t> order(phases_);
    std::iota(order.begin(), order.end(), size_t{0});
    if (fault == MeetingFault::kOtherOrder) std::swap(order[0], order[1]);
    if (fault == MeetingFault::kTwice) order[1] = order[0];
    if (fault == MeetingFault::kEndsEarly) order.pop_back();
    for (size_t met = 0; met < order.size(); ++met) {
      const bool spoils = fault == MeetingFault::kNotFinite && met == 1;
      MUSTER_RETURN_IF_ERROR(Meet(input, order[met], spoils, x));
      if (met != order.size() / 2) continue;
      output.loss = static_cast<double>(x[0]);
      sink.outcome(output);
      for (int64_t i = 0; i < kValues; ++i) sink.gradient[At(0, i)] = x[static_cast<size_t>(i)];
      sink.ready(0);
    }
    for (int64_t i = 0; i < kValues; ++i) sink.gradient[At(1, i)] = x[static_cast<size_t>(i)];
    sink.gradient[At(2, 0)] = x[1];
    sink.ready(1);
    sink.ready(2);
    return output;
  }

 private:
  static constexpr int64_t kValues = 21;

  size_t At(size_t tensor, int64_t i) const {
    return static_cast<size_t>(space_.tensors[tensor].offset + i);
  }

  absl::Status Meet(const LaneInput& input, size_t phase, bool spoils,
                    std::vector<float>& x) const {
    std::vector<float> terms(static_cast<size_t>(Phases()[phase].Elements()));
    for (size_t i = 0; i + 1 < terms.size(); ++i)
      terms[i] = x[i % x.size()] * (0.1F + static_cast<float>(i % 3));
    terms.back() = static_cast<float>(input.samples.size());
    if (spoils) terms[0] = std::numeric_limits<float>::quiet_NaN();
    absl::Span<const float> total = terms;
    if (input.exchange) {
      MUSTER_ASSIGN_OR_RETURN(total, input.exchange(phase, terms));
    }
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = 0.5F * x[i] + total[i % (total.size() - 1)] / total.back();
    return absl::OkStatus();
  }

  const uint64_t samples_;
  const size_t phases_;
  const MeetingFault fault_;
  FlatSpace space_;
};

}  // namespace muster
