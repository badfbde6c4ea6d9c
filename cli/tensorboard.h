// muster tensorboard: the history of jobs, of a cluster or of folders, as runs of TensorBoard.
#pragma once

#include <ostream>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/plot.h"

namespace muster::cli {

absl::StatusOr<int> TensorBoard(const RemoteArguments& arguments, const std::vector<JobPlace>& jobs,
                                std::ostream& out);

}  // namespace muster::cli
