// Which checkpoint of a folder is meant, and what a worker is asked to do with its model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/in_worker.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/survey.h"

namespace muster::cli {

// The job's folder of checkpoints, which need not be there. Errors as of FindCheckpoint.
absl::StatusOr<std::string> CheckpointFolderOf(const CheckpointArguments& checkpoint);
// Its step, its name, or kBest; empty: the newest.
std::string WhichOf(const CheckpointArguments& checkpoint);

struct NamedPlace {
  CheckpointPlace place;
  std::string name;      // that it is kept by; empty: none
  bool is_best = false;  // of all of them
};
// By the rule of the newest whose manifest can be read. What is incomplete or not finite is not the
// best. Nothing: none is.
std::optional<size_t> BestIn(const std::vector<SurveyedCheckpoint>& all);
// Of these, of a step the one of the last lineage. kNotFound: none, and those that are there are
// named.
absl::StatusOr<CheckpointPlace> ChoosePlace(const std::vector<NamedPlace>& places,
                                            const std::string& folder, const std::string& which);

// Of those in `places`, whose names are read where they matter. Errors of ChoosePlace.
absl::StatusOr<CheckpointPlace> FindPlace(const CheckpointFiles& files,
                                          const std::vector<CheckpointPlace>& places,
                                          const std::string& folder, const std::string& which);

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
