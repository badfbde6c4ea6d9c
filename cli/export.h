// muster export: a checkpoint as a file for other programs.
#pragma once

#include <ostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/in_worker.h"
#include "cli/saved_model.h"

namespace muster::cli {

// Writes it and tells of it on `out`; of the formats that need no LibTorch. Errors of `find`, and
// of what it finds; kInvalidArgument: something else than a file lies in its place; kDataLoss: the
// checkpoint is damaged; and those of the file.
absl::Status ExportCheckpoint(const ExportArguments& arguments, const CheckpointFinder& find,
                              std::ostream& out);

// Of the format libtorch. Errors of `find`; kInvalidArgument likewise, and for what that format
// cannot hold.
absl::StatusOr<WorkerCommand> ExportCommand(const ExportArguments& arguments,
                                            const CheckpointFinder& find);

}  // namespace muster::cli
