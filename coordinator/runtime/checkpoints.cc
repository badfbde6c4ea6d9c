#include "coordinator/runtime/checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/state/plan.h"
#include "lib/base/status.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/log/log.h"

namespace muster::coordinator {

std::string CheckpointDir(const std::string& root, const std::string& job) {
  return absl::StrCat(root, "/", job);
}

absl::StatusOr<Manifest> CommitCheckpoint(Kv& kv, Manifest manifest, bool replaces,
                                          int64_t unix_seconds) {
  manifest.unix_seconds = unix_seconds;
  manifest.total_bytes = 0;
  for (const Segment& segment : manifest.segments) manifest.total_bytes += segment.bytes;
  MUSTER_RETURN_IF_ERROR(Catalogue(kv).Commit(manifest, replaces));
  return manifest;
}

void PruneCheckpoints(Kv& kv, const std::string& cluster, const std::string& dir,
                      const Manifest& newest, const std::vector<Lineage>& lineages, int32_t keep) {
  Catalogue catalogue(kv, cluster);
  const Allowed allowed = [&](LineageNumber lineage, Step step) {
    return OnAncestry(lineages, lineage, step);
  };
  const absl::Status pruned = catalogue.Prune(newest.job, allowed, std::max(1, keep), dir);
  if (!pruned.ok()) LogWarning("old checkpoints of job %s stay: %s", newest.job, pruned.message());
  const absl::Status removed =
      catalogue.RemoveOrphans(dir, newest.job, newest.lineage, newest.step);
  if (!removed.ok())
    LogWarning("files of aborted checkpoints of job %s stay: %s", newest.job, removed.message());
}

}  // namespace muster::coordinator
