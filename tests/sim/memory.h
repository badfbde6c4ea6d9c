// The states and results that a member holds, by step, as lib/member/runtime/member_memory.h keeps
// them; buffers are handles, as there. Lives as long as the member.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/values.h"

namespace muster::sim {

using Buffer = std::shared_ptr<std::vector<Value>>;

struct SimState {
  Buffer values;
  std::shared_ptr<SlotValues> slots;  // null: this member does not apply
};

class SimMemory {
 public:
  SimMemory(Sync sync, size_t chunks, std::function<void(const std::string&)> violate)
      : sync_(sync), chunks_(chunks), violate_(std::move(violate)) {}

  // Where the results of `step`, the open one, are stored: fresh at its first use.
  std::vector<Value>& ReceiveBuffer(Step step) {
    const size_t i = Parity(step);
    if (generation_of_[i] != step) {
      generations_[i] = Torn();
      generation_of_[i] = step;
    }
    return *generations_[i];
  }
  const Buffer& Results(Step step) {
    const size_t i = Parity(step);
    if (generation_of_[i] != step) {
      violate_(absl::StrCat("results of step ", step.value(), " are read but not held"));
      generations_[i] = Torn();
      generation_of_[i] = step;
    }
    return generations_[i];
  }
  const Buffer& Values(Step step) {
    if (sync_ == Sync::kServer) return Results(step - 1);
    if (!values_) values_ = Torn();
    return values_;
  }
  SlotValues& Slots() { return *slots_; }
  bool has_slots() const { return slots_ != nullptr; }
  SimState State(Step step) { return {Values(step), slots_}; }

  // Everything before is void; the member is at `step` with this state.
  void Restart(Step step, SimState state) {
    generations_ = {};
    generation_of_ = {};
    slots_ = std::move(state.slots);
    if (sync_ == Sync::kAllreduce) {
      values_ = std::move(state.values);
      return;
    }
    generations_[Parity(step - 1)] = std::move(state.values);
    generation_of_[Parity(step - 1)] = step - 1;
  }
  void Drop() {
    generations_ = {};
    generation_of_ = {};
    values_.reset();
    slots_.reset();
  }

 private:
  static size_t Parity(Step step) { return static_cast<size_t>(step.value() & 1); }
  Buffer Torn() const { return std::make_shared<std::vector<Value>>(chunks_, kTorn); }

  const Sync sync_;
  const size_t chunks_;
  const std::function<void(const std::string&)> violate_;
  std::array<Buffer, 2> generations_;  // results, by parity of their step
  std::array<std::optional<Step>, 2> generation_of_;
  Buffer values_;  // allreduce
  std::shared_ptr<SlotValues> slots_;
};

}  // namespace muster::sim
