#include "coordinator/runtime/checkpoints.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/state/plan.h"
#include "lib/base/status.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/domain/job_id.h"
#include "lib/log/log.h"

namespace muster::coordinator {

std::string CheckpointDir(const std::string& root, const std::string& job) {
  return absl::StrCat(root, "/", job);
}

namespace {

// Two clusters on one folder, which each took for its own: the other one's file is its only word
// about its segments.
absl::Status CheckNobodyElses(const CheckpointFiles& files, const std::string& name,
                              const std::string& cluster) {
  const absl::StatusOr<std::string> whose = ReadManifestCluster(files, name);
  if (absl::IsUnavailable(whose.status()) || absl::IsPermissionDenied(whose.status()))
    return whose.status();
  if (!whose.ok() || *whose == cluster) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "'", files.PathOf(name), "' is a checkpoint of cluster ", *whose,
      ", and this one is cluster ", cluster, ": move the folder of that checkpoint elsewhere"));
}

}  // namespace

absl::StatusOr<Manifest> CommitCheckpoint(Catalogue catalogue, ManifestFile file,
                                          CheckpointFiles& files, bool replaces,
                                          int64_t unix_seconds) {
  Manifest& manifest = file.manifest;
  manifest.unix_seconds = unix_seconds;
  manifest.total_bytes = 0;
  for (const Segment& segment : manifest.segments) manifest.total_bytes += segment.bytes;
  MUSTER_RETURN_IF_ERROR(catalogue.CheckCommit(manifest, replaces).status());
  MUSTER_RETURN_IF_ERROR(
      CheckNobodyElses(files, ManifestFileOf(manifest.lineage, manifest.step), file.cluster));
  MUSTER_RETURN_IF_ERROR(catalogue.MayChangeNow());
  MUSTER_RETURN_IF_ERROR(WriteManifestFile(files, file));
  MUSTER_RETURN_IF_ERROR(catalogue.Commit(manifest, replaces));
  return std::move(manifest);
}

absl::Status PruneCheckpoints(Catalogue catalogue, CheckpointFiles& files, const Manifest& newest,
                              const std::vector<Lineage>& lineages, const KeepRule& keep,
                              const BestRule& best) {
  const Allowed allowed = [&](LineageNumber lineage, Step step) {
    return OnAncestry(lineages, lineage, step);
  };
  const KeepRule rule(std::max(1, keep.last), keep.every, keep.epochs);
  const absl::Status pruned = catalogue.Prune(newest.job, allowed, rule, files, best);
  if (!pruned.ok()) LogWarning("old checkpoints of job %s stay: %s", newest.job, pruned.message());
  const absl::Status removed =
      catalogue.RemoveOrphans(files, newest.job, newest.lineage, newest.step);
  if (!removed.ok())
    LogWarning("files of aborted checkpoints of job %s stay: %s", newest.job, removed.message());
  return pruned.ok() ? removed : pruned;
}

absl::Status DropUnknownJobs(Catalogue catalogue, const std::set<std::string>& known,
                             const std::string& root) {
  MUSTER_ASSIGN_OR_RETURN(std::set<std::string> jobs, catalogue.Jobs());
  MUSTER_ASSIGN_OR_RETURN(std::set<std::string> unfinished, catalogue.Unfinished());
  jobs.merge(unfinished);
  for (const std::string& job : jobs) {
    if (known.contains(job) || !IsJobId(job)) continue;
    LogInfo(
        "the journal knows no job %s: its checkpoints, which an adoption or a deletion left that "
        "was cut short, are removed",
        job);
    const absl::Status removed =
        catalogue.RemoveAll(job, *CheckpointFilesIn(CheckpointDir(root, job)));
    if (removed.ok()) continue;
    MUSTER_ASSIGN_OR_RETURN(const std::set<std::string> left, catalogue.Jobs());
    if (left.contains(job)) return removed;
    LogWarning("files of checkpoints of job %s stay: %s", job, removed.message());
  }
  return absl::OkStatus();
}

namespace {

// Of another cluster's checkpoint it may be that one's.
absl::Status DropStaleMark(const Catalogue& catalogue, CheckpointFiles& files,
                           const std::string& cluster, const Manifest& manifest) {
  const std::string mark = GoingFileOf(manifest.lineage, manifest.step);
  const absl::Status found = files.Open(mark).status();
  if (absl::IsNotFound(found)) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(found);
  MUSTER_ASSIGN_OR_RETURN(
      const std::string whose,
      ReadManifestCluster(files, ManifestFileOf(manifest.lineage, manifest.step)));
  if (whose != cluster) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(catalogue.MayChangeNow());
  MUSTER_RETURN_IF_ERROR(files.Remove(mark));
  LogInfo("the removal of the checkpoint of step %d of job %s was cut short: it is there, whole",
          manifest.step.value(), manifest.job);
  return absl::OkStatus();
}

absl::Status DropStaleMarksOf(const Catalogue& catalogue, const std::string& cluster,
                              const std::string& root, const std::string& job) {
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, catalogue.List(job));
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(CheckpointDir(root, job));
  absl::Status first;
  for (const Manifest& manifest : listing.manifests)
    first.Update(DropStaleMark(catalogue, *files, cluster, manifest));
  return first;
}

}  // namespace

void DropStaleMarks(const Catalogue& catalogue, const std::string& cluster,
                    const std::string& root) {
  const absl::StatusOr<std::set<std::string>> jobs = catalogue.Jobs();
  if (!jobs.ok())
    return LogWarning("nobody knows of removals that were cut short: %s", jobs.status().message());
  for (const std::string& job : *jobs) {
    if (!IsJobId(job)) continue;
    const absl::Status dropped = DropStaleMarksOf(catalogue, cluster, root, job);
    if (!dropped.ok())
      LogWarning("checkpoints of job %s may take no names until its next one: %s", job,
                 dropped.message());
  }
}

}  // namespace muster::coordinator
