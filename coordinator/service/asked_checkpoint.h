// A checkpoint that a submission asks for by its name, or by a step that the job would not go back
// to by itself: names lie beside the files, and the job's own memory has only what
// `checkpoint.keep` says. Looked up before anything is decided, so that a step is journalled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/runtime/known_job.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/domain/manifest.h"

namespace muster::coordinator {

struct FoundManifest : Manifest {
  int64_t removals = 0;  // as JobStatus has them, of its job before it was looked for
};
using ManifestPtr = std::shared_ptr<const FoundManifest>;

struct AskedCheckpoint {
  KnownJobPtr job;    // whose it is
  std::string field;  // that asks for it, for errors
  std::string name;   // that it is kept by, or kBest; empty: it is asked for by its step
  Step step;
};

// Of the job's ancestry alone: from what it has left out nobody goes on. kInvalidArgument, with the
// field: there is none of that name, and those that there are are named; or nobody knows which one
// it is, as a file with a name or a measure cannot be read. Null: none of that step.
// kUnavailable: names cannot be read just now. Reads files: no work for the driver's thread. `root`
// as in DriverOptions.
absl::StatusOr<ManifestPtr> FindCheckpoint(const Catalogue& catalogue, const std::string& root,
                                           const AskedCheckpoint& asked);

}  // namespace muster::coordinator
