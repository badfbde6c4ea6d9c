// A task that breaks its contract in the way that its parameter says, as a stranger's may. It sums
// its samples' ids into one weight. In plug-ins and in tests themselves.
#pragma once

#include <fenv.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/plugin.h"

namespace muster {

class OddTask : public Task {
 public:
  explicit OddTask(const TaskOptions& options) : does_(options.Text("does")) {
    if (does_ == "throws when it is made") throw std::runtime_error("no luck");
    if (does_ == "throws a number") throw 7;
    if (does_ == "has no memory when it is made")
      throw TaskError(absl::ResourceExhaustedError("no room for the model"));
    if (does_ == "closes what is printed to") {
      close(STDOUT_FILENO);
      close(STDERR_FILENO);
    }
  }

  std::vector<TensorSpec> Tensors() const override {
    if (does_ == "has no tensor") return {};
    if (does_ == "has a name of other bytes") return {{"caf\xe9\x1b", {3}}};
    if (does_ == "has a long name") return {{std::string(1'000'000, 'x'), {3}}};
    if (does_ == "has many tensors") return Many(200'000);
    if (asked_++ > 0) {
      if (does_ == "has other tensors when asked again") return {{"a", {5}}};
      if (does_ == "has another shape when asked again") return {{"a", {3}}, {"b", {2, 3}}};
      if (does_ == "has another name when asked again") return {{"c", {3}}, {"b", {2, 2}}};
      if (does_ == "has another kind when asked again")
        return {{"a", {3}}, {"b", {2, 2}, TensorKind::kBuffer}};
    }
    return {{"a", {3}}, {"b", {2, 2}}};
  }
  std::string DataLeftOut() const override {
    return does_ == "leaves out a long list" ? "\n" + std::string(8'000'000, 'x') : "";
  }
  uint64_t SampleCount() const override { return does_ == "has no sample" ? 0 : 40; }
  std::string DataHash() const override { return does_ == "has no hash" ? "" : "ids"; }
  absl::Status Bind(const FlatSpace& space) override {
    space_ = space;
    return absl::OkStatus();
  }
  absl::Status Initialize(uint64_t, absl::Span<float>) override {
    if (does_ == "throws when it begins") throw std::runtime_error("no weights");
    return absl::OkStatus();
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    if (does_ == "throws in a lane") throw std::runtime_error("no lane");
    if (does_ == "prints") {
      std::cout << "printed by a stream\n";
      std::printf("printed by printf\n");
    }
    if (does_ == "finds bad data") return absl::DataLossError("rows.csv:7: no number");
    if (does_ == "has no memory in a lane") return absl::ResourceExhaustedError("no room for it");
    if (does_ == "asks for more memory than there is") throw std::bad_alloc();
    if (does_ == "rounds otherwise") _mm_setcsr(_mm_getcsr() & ~0x8040u);
    LaneOutput output{.weight = static_cast<int64_t>(input.samples.size())};
    if (does_ == "weighs too much") output.weight = std::numeric_limits<int64_t>::max();
    if (does_ == "weighs too little") output.weight = -1;
    if (does_ == "has a loss of nothing") output = {.weight = 0, .loss = 3.5};
    if (does_ == "leaves out what it may not") output.left_out = {0};
    if (does_ == "leaves out a sample that there is not") output.left_out = {9};
    if (does_ == "leaves out a sample twice") output.left_out = {1, 1};
    if (does_ == "leaves out all and weighs") output.left_out = {0, 1};
    if (does_ == "is ready too early") sink.ready(0);
    if (does_ != "never tells its outcome") sink.outcome(output);
    if (does_ == "tells its outcome twice") sink.outcome(output);
    for (uint64_t id : input.samples) {
      const float value = does_ == "has no number" ? std::numeric_limits<float>::quiet_NaN()
                                                   : static_cast<float>(id);
      sink.gradient[static_cast<size_t>(space_.tensors[0].offset)] += value;
    }
    if (does_ == "throws in a hook") throw std::runtime_error("no hook");
    sink.ready(1);
    if (does_ == "is ready twice") sink.ready(1);
    if (does_ == "has more than it has") sink.ready(2);
    if (does_ != "is never ready") sink.ready(0);
    if (does_ == "tells another outcome") ++output.weight;
    if (does_ == "tells another loss") output.loss = 1;
    if (does_ == "leaves out another sample") output.left_out = {1};
    return output;
  }

 private:
  static std::vector<TensorSpec> Many(int count) {
    std::vector<TensorSpec> tensors;
    for (int i = 0; i < count; ++i) tensors.push_back({std::to_string(i), {1}});
    return tensors;
  }

  const std::string does_;
  mutable int asked_ = 0;
  FlatSpace space_;
};

inline TaskType OddType(const std::string& name = "odd") {
  return {{.name = name,
           .help = "what a stranger may write",
           .parameters = {TaskParameter::Text("does", "as it should", {}, "what it does"),
                          TaskParameter::Boolean("really", true, "a boolean"),
                          TaskParameter::Integers("sizes", {1, 2}, 1, 9, "whole numbers"),
                          TaskParameter::Texts("names", {"x"}, {"x", "y"}, "texts")},
           .default_samples = 40},
          [](const TaskOptions& options) -> absl::StatusOr<std::unique_ptr<Task>> {
            if (options.Text("does") == "is nothing") return nullptr;
            return std::make_unique<OddTask>(options);
          }};
}

}  // namespace muster
