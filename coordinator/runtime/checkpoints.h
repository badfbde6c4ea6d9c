// Committing checkpoints and reading them back: the part of the coordinator that works on files.
// Runs on the commit thread of the job.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/domain/best_state.h"
#include "lib/domain/ledger.h"
#include "lib/domain/manifest.h"

namespace muster::coordinator {

// Where the segments of a job lie.
std::string CheckpointDir(const std::string& root, const std::string& job);

// Completes the manifest (time, total), writes its file beside its segments, and commits it,
// synced. Nothing is written of one that the catalogue refuses. What fails after the file was
// written leaves it there: the state that it tells of is whole, and it goes as an orphan. Errors as
// Catalogue::Commit and WriteManifestFile; kFailedPrecondition: another cluster's file lies there;
// kUnavailable, kPermissionDenied: nobody knows whose file lies there.
absl::StatusOr<Manifest> CommitCheckpoint(Catalogue catalogue, ManifestFile file,
                                          CheckpointFiles& files, bool replaces,
                                          int64_t unix_seconds);

// Removes checkpoints on the ancestry that `keep` does not keep and that are not the best, then
// files of aborted rounds of this cluster before `newest`. A failure is only logged and told: the
// next commit tries again.
absl::Status PruneCheckpoints(Catalogue catalogue, CheckpointFiles& files, const Manifest& newest,
                              const std::vector<Lineage>& lineages, const KeepRule& keep,
                              const BestRule& best = {});

// What a crash left between the first byte of an adopted job's checkpoint and the journalling of
// the job, or amid the removal of such a copy: checkpoints and files of jobs that the journal does
// not know go, so that no job of that id, submitted
// later, goes on from them. Once, before anything is submitted. An error: some are left in the
// catalogue; a file that cannot be deleted is only logged.
absl::Status DropUnknownJobs(Catalogue catalogue, const std::set<std::string>& known,
                             const std::string& root);

// A removal that a crash cut short has left a word of itself (kGoingFile of kept_name.h) beside a
// checkpoint of `cluster` that is still committed, and that would take no name any more: it goes.
// Once, before anything is submitted: later one may tell of a removal that is under way. A failure
// is only logged.
void DropStaleMarks(const Catalogue& catalogue, const std::string& cluster,
                    const std::string& root);

}  // namespace muster::coordinator
