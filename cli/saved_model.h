// Which checkpoint of a folder is meant, and what a worker is asked to do with its model.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/in_worker.h"

namespace muster::cli {

struct FoundCheckpoint {
  std::string folder;    // of the job's checkpoints
  std::string manifest;  // relative to it
};
// kNotFound: there is no such folder, job or checkpoint (those there are are named);
// kInvalidArgument: the folder holds several jobs, which are named.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const CheckpointArguments& checkpoint);

// `plugins` as of CheckCommand; errors as of FindCheckpoint.
absl::StatusOr<WorkerCommand> EvaluateCommand(const EvaluateArguments& evaluate,
                                              const std::vector<std::string>& plugins);
absl::StatusOr<WorkerCommand> GenerateCommand(const GenerateArguments& generate,
                                              const std::vector<std::string>& plugins);

}  // namespace muster::cli
