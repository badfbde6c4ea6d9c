// What every build checks before it makes a task that is part of Muster.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/status.h"
#include "lib/domain/job.h"
#include "lib/task/model_size.h"
#include "lib/task/registry.h"
#include "lib/wire/task_parameters.h"

namespace muster::worker {

// The specification with every parameter. kInvalidArgument, kFailedPrecondition: the task is not
// known, or it cannot be.
inline absl::StatusOr<TrainingSpec> CompleteBuiltIn(const TrainingSpec& given) {
  const TaskInfo* info = FindTask(given.task);
  if (info == nullptr) {
    const auto name = [](std::string* out, const TaskInfo& t) { out->append(t.name); };
    return absl::InvalidArgumentError(absl::StrCat(
        "task: '", given.task, "' is unknown; there are ", absl::StrJoin(Tasks(), ", ", name)));
  }
  MUSTER_ASSIGN_OR_RETURN(TrainingSpec training, CompleteFor(*info, given));
  MUSTER_RETURN_IF_ERROR(CheckTaskFits(training, MemoryForUs()));
  return training;
}

}  // namespace muster::worker
