// The file of a committed checkpoint beside its segments, from which a cluster that never knew the
// job can adopt it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"
#include "lib/wire/manifest_file_codec.h"

namespace muster {

inline constexpr char kManifestFile[] = "checkpoint.manifest";
// Relative to the job's checkpoint directory, in the folder of that checkpoint.
std::string ManifestFileOf(LineageNumber lineage, Step step);

using CheckpointPlace = std::pair<LineageNumber, Step>;
// Of which checkpoints there is such a file, in any order; also where it cannot be looked at, or is
// none: whoever reads it says so. kInvalidArgument: so many entries that it is no folder of
// checkpoints; others as CheckpointFiles::List.
absl::StatusOr<std::vector<CheckpointPlace>> CheckpointPlacesIn(const CheckpointFiles& files);

// In the place of an earlier one of that lineage and step. Errors as CheckpointFiles::Replace;
// kInvalidArgument: it is too large.
absl::Status WriteManifestFile(CheckpointFiles& files, const ManifestFile& file);

// kDataLoss: damaged, or that of another checkpoint than `name` says; kFailedPrecondition: of
// another version. Others as CheckpointFiles::Open. Messages name the file and what to do.
absl::StatusOr<ManifestFile> ReadManifestFile(const CheckpointFiles& files,
                                              const std::string& name);
// Whose it is: its header alone is read and checked. Likewise.
absl::StatusOr<std::string> ReadManifestCluster(const CheckpointFiles& files,
                                                const std::string& name);

}  // namespace muster
