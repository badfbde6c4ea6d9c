// The committed checkpoints: manifests in the store's family "catalogue". Only what is in here
// exists; a segment file that no manifest names is an orphan.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/domain/manifest.h"
#include "lib/storage/kv.h"

namespace muster {

inline constexpr char kCatalogueFamily[] = "catalogue";

// Whether a checkpoint of that lineage and step may be used: it is on the job's ancestry.
using Allowed = std::function<bool(LineageNumber, Step)>;

// One writer, the coordinator, off its driver's thread; readers on any thread. `kv` outlives it.
// Segments that name another cluster than `cluster` are no files of ours; empty: whatever they
// name. `dir` is always the job's own checkpoint directory. Errors of the store pass through.
class Catalogue {
 public:
  explicit Catalogue(Kv& kv, std::string cluster = "") : kv_(kv), cluster_(std::move(cluster)) {}

  struct Listing {
    std::vector<Manifest> manifests;   // ascending (lineage, step): the last one is the newest
    std::vector<std::string> damaged;  // what could not be read, for people
  };

  // Atomic and synced; from then on the checkpoint is visible. Again with the same content: OK.
  // kInvalidArgument: not complete for its own layout; kAlreadyExists: another manifest of that
  // job, lineage and step, which this one does not replace. The files of a replaced one are orphans
  // from then on.
  absl::Status Commit(const Manifest& manifest, bool replaces = false);
  absl::StatusOr<Listing> List(const std::string& job) const;
  // Takes the manifest out, synced; then deletes its files. Not there: OK.
  absl::Status Remove(const std::string& job, LineageNumber lineage, Step step,
                      const std::string& dir);
  // Keeps the newest `keep` (at least 1) allowed checkpoints, and the newest one that is finite;
  // every other one of the job is removed.
  absl::Status Prune(const std::string& job, const Allowed& allowed, int32_t keep,
                     const std::string& dir);
  // Takes every manifest of the job out, synced; then deletes all checkpoint files in `dir`, and
  // the folders that are empty then. Files we did not make are left alone. Broken off, it can be
  // called again.
  absl::Status RemoveAll(const std::string& job, const std::string& dir);
  // Deletes what aborted rounds left: files of checkpoint folders that no manifest names, temporary
  // ones included, except of (lineage, step) and later ones, where a round may be open. Files we
  // did not make are left alone. kDataLoss, nothing deleted: a manifest cannot be read, so nobody
  // knows which files it names.
  absl::Status RemoveOrphans(const std::string& dir, const std::string& job, LineageNumber lineage,
                             Step step);

 private:
  Kv& kv_;
  const std::string cluster_;
};

}  // namespace muster
