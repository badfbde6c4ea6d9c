// What a training was asked for, as names and plain values: for programs that compare jobs.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "lib/domain/job.h"

namespace muster {

struct HyperParameter {
  std::string name;  // as in a job's file, "optimizer.learning_rate"
  std::variant<double, bool, std::string> value;
  bool operator==(const HyperParameter&) const = default;
};

// Fields of the training specification that have a meaning for this job, without lists.
std::vector<HyperParameter> HyperParametersOf(const JobSpec& spec);

}  // namespace muster
