// The explicit table of tasks: what a job specification may name, and with which parameters. Pure
// data, so that whoever checks a specification needs no LibTorch; the workers' own table makes the
// tasks themselves (worker/tasks).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// A number that shapes a task; the range is inclusive.
struct TaskParameter {
  std::string name;
  double default_value = 0;
  double min = 0;
  double max = 0;
  bool integer = true;
  std::string help;
};

// Two parameters that do not go together: which one to change, and why.
struct ParameterConflict {
  std::string parameter;
  std::string reason;
};

struct TaskInfo {
  std::string name;
  std::string help;
  std::vector<TaskParameter> parameters;
  // data.paths must be given; otherwise the task makes data.samples samples.
  bool data_needed = false;
  uint64_t default_samples = 0;  // of a task that makes its data: what data.samples = 0 means
  // `multiple` must be a multiple of `divisor`; both empty: no such rule.
  std::string multiple;
  std::string divisor;

  const TaskParameter* Parameter(
      absl::string_view parameter) const;  // nullptr: there is none of that name
  // `values` holds every parameter, each within its range.
  std::optional<ParameterConflict> Conflict(const std::map<std::string, double>& values) const;
};

const std::vector<TaskInfo>& Tasks();              // in name order
const TaskInfo* FindTask(absl::string_view name);  // nullptr: not known

}  // namespace muster
