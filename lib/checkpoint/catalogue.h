// The committed checkpoints: manifests in the store's family "catalogue". Only what is in here
// exists; a segment file that no manifest names is an orphan.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"
#include "lib/domain/best_state.h"
#include "lib/domain/manifest.h"
#include "lib/storage/kv.h"

namespace muster {

inline constexpr char kCatalogueFamily[] = "catalogue";

// Whether a checkpoint of that lineage and step may be used: it is on the job's ancestry.
using Allowed = std::function<bool(LineageNumber, Step)>;

// One writer, the coordinator, off its driver's thread; readers on any thread. `kv` outlives it.
// Segments that name another cluster than `cluster` are no files of ours; empty: whatever they
// name. `files` are always those of the job itself. Errors of the store and of `files` pass
// through.
class Catalogue {
 public:
  // Asked before each commit and each deletion, which its error keeps from being done.
  using MayChange = std::function<absl::Status()>;

  explicit Catalogue(
      Kv& kv, std::string cluster = "", MayChange may_change = [] { return absl::OkStatus(); })
      : kv_(kv), cluster_(std::move(cluster)), may_change_(std::move(may_change)) {}

  absl::Status MayChangeNow() const { return may_change_(); }

  struct Listing {
    std::vector<Manifest> manifests;   // ascending (lineage, step): the last one is the newest
    std::vector<std::string> damaged;  // what could not be read, for people
  };

  // Atomic and synced; from then on the checkpoint is visible. Again with the same content: OK.
  // kInvalidArgument: not complete for its own layout; kAlreadyExists: another manifest of that
  // job, lineage and step, which this one does not replace. The files of a replaced one are orphans
  // from then on.
  absl::Status Commit(const Manifest& manifest, bool replaces = false);
  // From now on, synced, the job counts as unfinished, until one of its manifests is committed or
  // RemoveAll is done: what lies in its directory is nobody's where the journal does not know the
  // job. For whoever writes files there before there is such a job.
  absl::Status Begin(const std::string& job);
  // Ids of all jobs that are unfinished. RemoveAll leaves a job so where it is broken off.
  absl::StatusOr<std::set<std::string>> Unfinished() const;
  // Whether Commit would refuse it, before anything is written for it. True: it would change
  // something; false: it is committed already.
  absl::StatusOr<bool> CheckCommit(const Manifest& manifest, bool replaces) const;
  absl::StatusOr<Listing> List(const std::string& job) const;
  // Whether that one is committed, also where its entry cannot be read.
  absl::StatusOr<bool> Has(const std::string& job, LineageNumber lineage, Step step) const;
  // Ids of all jobs that have a manifest here, also one that cannot be read.
  absl::StatusOr<std::set<std::string>> Jobs() const;
  // Takes the manifest out, synced; then deletes its files, the manifest's own first. Not there:
  // OK. The manifest's own file stays where it is of another cluster, here and below. What we may
  // not read is none of ours; what cannot be read just now may be anybody's: it stays, and the
  // error, kUnavailable, is told once all else is done.
  absl::Status Remove(const std::string& job, LineageNumber lineage, Step step,
                      CheckpointFiles& files);
  // The same, unless it has a name (kept_name.h), or is given one meanwhile. False: it has one, and
  // stays.
  absl::StatusOr<bool> RemoveUnnamed(const std::string& job, LineageNumber lineage, Step step,
                                     CheckpointFiles& files);
  // Keeps what `rule` says of the allowed checkpoints, the newest one that is finite, the one of
  // those that are finite which is best by its measure_file.h, and those that have a name
  // (kept_name.h), also where they are not allowed; every other one of the job is removed. One
  // whose measure cannot be read may be the best and stays as well: its error, kDataLoss for
  // instance, is told once all else is done.
  absl::Status Prune(const std::string& job, const Allowed& allowed, const KeepRule& rule,
                     CheckpointFiles& files, const BestRule& best = {});
  // Takes every manifest of the job out, synced; then deletes all its checkpoint files, and the
  // folders that are empty then. Files we did not make are left alone. Broken off, it can be
  // called again.
  absl::Status RemoveAll(const std::string& job, CheckpointFiles& files);
  // Deletes what aborted rounds left: files of checkpoint folders that no manifest names, temporary
  // ones included, except of (lineage, step) and later ones, where a round may be open. Files we
  // did not make are left alone. kDataLoss, nothing deleted: a manifest cannot be read, so nobody
  // knows which files it names.
  absl::Status RemoveOrphans(CheckpointFiles& files, const std::string& job, LineageNumber lineage,
                             Step step);

 private:
  // Of these folders, all but what is named.
  absl::Status DeleteOrphans(CheckpointFiles& files, const std::vector<std::string>& folders,
                             const std::set<std::string>& named) const;

  Kv& kv_;
  const std::string cluster_;
  const MayChange may_change_;
};

}  // namespace muster
