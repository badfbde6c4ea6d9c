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

// A state of another job, which this one is a fork of.
struct ParentState {
  std::string job;
  int64_t step = 0;
  std::string digest{};  // of the state
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

}  // namespace muster
