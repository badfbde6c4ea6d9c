// Committing checkpoints and reading them back: the part of the coordinator that works on files.
// Runs on the commit thread of the job.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/ledger.h"
#include "lib/domain/manifest.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {

// Where the segments of a job lie.
std::string CheckpointDir(const std::string& root, const std::string& job);

// Completes the manifest (time, total) and commits it, synced. Errors as Catalogue::Commit.
absl::StatusOr<Manifest> CommitCheckpoint(Kv& kv, Manifest manifest, bool replaces,
                                          int64_t unix_seconds);

// Removes checkpoints beyond the newest `keep` on the ancestry, then files of aborted rounds of
// this cluster before `newest`. A failure is logged only: the next commit tries again.
void PruneCheckpoints(Kv& kv, const std::string& cluster, const std::string& dir,
                      const Manifest& newest, const std::vector<Lineage>& lineages, int32_t keep);

}  // namespace muster::coordinator
