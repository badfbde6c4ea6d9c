// The name that a person gave a checkpoint so that it is kept: a small file beside its manifest.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"

namespace muster {

inline constexpr char kKeptFile[] = "checkpoint.kept";
// Relative to the job's checkpoint directory.
std::string KeptFileOf(LineageNumber lineage, Step step);

// kNotFound: it has none; kDataLoss: what lies there is none. Others as CheckpointFiles::Open.
absl::StatusOr<std::string> ReadKeptName(const CheckpointFiles& files, LineageNumber lineage,
                                         Step step);
// It lies there whole or not at all. kInvalidArgument: it is no name; others as
// CheckpointFiles::Replace.
absl::Status WriteKeptName(CheckpointFiles& files, LineageNumber lineage, Step step,
                           const std::string& name);

// Whether such a file lies there, whatever is in it. kUnavailable: nobody can tell now.
absl::StatusOr<bool> IsKept(const CheckpointFiles& files, LineageNumber lineage, Step step);

}  // namespace muster
