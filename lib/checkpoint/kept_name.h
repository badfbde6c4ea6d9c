// The name that a person gave a checkpoint so that it is kept: a small file beside its manifest, a
// line with a checksum. Whoever gives one need not be the process that removes old checkpoints, so
// the two look at each other: whoever removes says so by a file of its own and then looks for a
// name, and whoever names looks for that file afterwards. One of them sees the other, so that
// nothing is removed of which somebody was told that it is kept.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"

namespace muster {

inline constexpr char kKeptFile[] = "checkpoint.kept";
inline constexpr char kGoingFile[] = "checkpoint.going";  // it is about to be removed
// Relative to the job's checkpoint directory.
std::string KeptFileOf(LineageNumber lineage, Step step);
std::string GoingFileOf(LineageNumber lineage, Step step);

// kNotFound: it has none; kDataLoss: what lies there is none. Others as CheckpointFiles::Open.
absl::StatusOr<std::string> ReadKeptName(const CheckpointFiles& files, LineageNumber lineage,
                                         Step step);
// It lies there whole or not at all. kInvalidArgument: it is no name; others as
// CheckpointFiles::Replace.
absl::Status WriteKeptName(CheckpointFiles& files, LineageNumber lineage, Step step,
                           const std::string& name);
// Likewise, of a checkpoint that may be removed meanwhile: once it is OK, nobody removes it as an
// old one. kNotFound: that is under way, or done, and it has no name then.
absl::Status KeepCheckpoint(CheckpointFiles& files, LineageNumber lineage, Step step,
                            const std::string& name);
// The other side: from now on nobody gives a name to what has none. False: it has one, and is to
// stay. kUnavailable: nobody can tell now.
absl::StatusOr<bool> MayGoUnnamed(CheckpointFiles& files, LineageNumber lineage, Step step);

// Whether such a file lies there, whatever is in it. kUnavailable: nobody can tell now.
absl::StatusOr<bool> IsKept(const CheckpointFiles& files, LineageNumber lineage, Step step);

}  // namespace muster
