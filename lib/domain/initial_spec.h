// Which values a job starts from, where it does not start from its task's own: `initial` of a job
// specification. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Of a name that begins with `from`, that part becomes `to`.
struct PrefixChange {
  std::string from;
  std::string to{};
  bool operator==(const PrefixChange&) const = default;
};

// A state of another job, which this one is a fork of (fork.h). Who submits may leave out all but
// the job; of a job that is there everything is known.
struct ParentState {
  std::string job;
  std::optional<int64_t> step{};  // nothing: that of its newest checkpoint
  std::string digest{};           // of the state; empty: not known yet
  // The steps that the optimizer's slots have seen, if they come along; 0: they begin as zeros.
  std::optional<int64_t> updates{};
  // The moving average comes along; else it begins with this job's first step.
  std::optional<bool> average{};
  // Asked for in place of a step: of a checkpoint that is kept, or kBest (best_state.h). A fork
  // that is there has its step.
  std::string name{};
  bool operator==(const ParentState&) const = default;
};

struct InitialSpec {
  std::string file;  // of tensors, on the hosts of the workers; empty: there is none
  // Of the names in the file; of each the first change that fits is made, and no other.
  std::vector<PrefixChange> map{};
  // Every tensor of the model is in the file and every one of the file is in the model; false: what
  // does not fit is left out.
  bool strict = true;
  std::optional<ParentState> parent{};  // nothing: the job is no fork
  bool operator==(const InitialSpec&) const = default;
};
inline constexpr size_t kMostPrefixChanges = 256;

// The optimizer's slots have seen so many steps before the job's first one: its corrections count
// them.
inline int64_t UpdatesBefore(const InitialSpec& initial) {
  return initial.parent ? initial.parent->updates.value_or(0) : 0;
}
// The moving average is there before the job's first step.
inline bool HasAverageBefore(const InitialSpec& initial) {
  return initial.parent && initial.parent->average.value_or(false);
}

}  // namespace muster
