// muster export: a checkpoint as a file for other programs.
#pragma once

#include <ostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/cluster_files.h"
#include "cli/in_worker.h"
#include "cli/rest_client.h"

namespace muster::cli {

// Writes it and tells of it on `out`; of the formats that need no LibTorch. Errors as
// EvaluateCommand; kInvalidArgument: something else than a file lies in its place; kDataLoss: the
// checkpoint is damaged; and those of the file.
absl::Status ExportCheckpoint(const ExportArguments& arguments, std::ostream& out);

// The same from a cluster. kNotFound, too: the checkpoint was removed while it was read. Errors of
// `rest`.
absl::Status ExportFromCluster(const ExportArguments& arguments, const RestClient& rest,
                               std::ostream& out, ClusterFilesPatience patience = {});

// Of the format libtorch.
absl::StatusOr<WorkerCommand> ExportCommand(const ExportArguments& arguments);

}  // namespace muster::cli
