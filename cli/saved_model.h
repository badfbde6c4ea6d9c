// Which checkpoint of a folder or a cluster is meant, and what a worker is asked to do with its
// model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/cluster_files.h"
#include "cli/in_worker.h"
#include "cli/rest_client.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/survey.h"

namespace muster::cli {

// The job's folder of checkpoints, which need not be there; where something else is, that is
// kInvalidArgument. Errors as of FindCheckpoint.
absl::StatusOr<std::string> CheckpointFolderOf(const CheckpointArguments& checkpoint);
// The id of a job of a cluster. kInvalidArgument: none is named, or it is no id.
absl::StatusOr<std::string> JobOfCluster(const CheckpointArguments& checkpoint);
// Its step, its name, or kBest; empty: the newest.
std::string WhichOf(const CheckpointArguments& checkpoint);

struct NamedPlace {
  CheckpointPlace place;
  std::string name;      // that it is kept by; empty: none
  bool is_best = false;  // of all of them
};
// By the rule of the newest whose manifest can be read. What is incomplete or not finite is not the
// best. Nothing: none is. An error: the measure of one cannot be read, so that nobody knows.
absl::StatusOr<std::optional<size_t>> BestIn(const std::vector<SurveyedCheckpoint>& all);
// Of these, of a step the one of the last lineage. kNotFound: none, and those that are there are
// named.
absl::StatusOr<CheckpointPlace> ChoosePlace(const std::vector<NamedPlace>& places,
                                            const std::string& folder, const std::string& which);

struct ChosenCheckpoint {
  size_t index = 0;    // of all
  std::string note{};  // for people, which newer ones were passed over; empty: none
};
// Of a folder or a cluster, whole or not. Where none is named, the newest that is whole, and of a
// cluster that its job would go on from: a job that runs is writing the one after it. Errors of
// ChoosePlace; others: nobody knows which one is meant, as a file with a name or a measure cannot
// be read.
absl::StatusOr<ChosenCheckpoint> ChooseOf(const std::vector<SurveyedCheckpoint>& all,
                                          const std::string& folder, const std::string& which);
absl::StatusOr<ChosenCheckpoint> ChooseOf(const std::vector<SavedCheckpointAnswer>& all,
                                          const std::string& folder, const std::string& which);

struct FoundCheckpoint {
  std::string folder;    // of the job's checkpoints; of a cluster: what messages call it
  std::string manifest;  // relative to it
  std::shared_ptr<const CheckpointFiles> files{};  // of a cluster; null: those in `folder`
  std::string note{};                              // as of ChosenCheckpoint
};
// kNotFound: there is no such folder, job or checkpoint (those there are are named);
// kInvalidArgument: the folder holds several jobs, which are named, or it is a file. kDataLoss: it
// is not complete. Errors of ChooseOf.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const CheckpointArguments& checkpoint);
// Likewise, of a job that has to be named. Errors of `rest`, too. What is read of it later has
// those of FilesOfCheckpoint.
absl::StatusOr<FoundCheckpoint> FindInCluster(const CheckpointArguments& checkpoint,
                                              const RestClient& rest,
                                              ClusterFilesPatience patience = {});

// Either of them, as the arguments say.
using CheckpointFinder =
    std::function<absl::StatusOr<FoundCheckpoint>(const AnyCheckpointArguments& checkpoint)>;

// The beginning of a command: what it does and with which checkpoint.
WorkerCommand CommandWith(const char* name, const AnyCheckpointArguments& checkpoint,
                          const FoundCheckpoint& found);

// `plugins` as of CheckCommand; errors of `find`.
absl::StatusOr<WorkerCommand> EvaluateCommand(const EvaluateArguments& evaluate,
                                              const std::vector<std::string>& plugins,
                                              const CheckpointFinder& find);
absl::StatusOr<WorkerCommand> GenerateCommand(const GenerateArguments& generate,
                                              const std::vector<std::string>& plugins,
                                              const CheckpointFinder& find);

}  // namespace muster::cli
