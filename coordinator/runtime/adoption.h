// Taking over a job from the files of its checkpoints, which a cluster left that is gone. Nothing
// in that folder is trusted, and nothing in it changes. One manifest is in memory at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/state/actions.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/manifest_file.h"

namespace muster::coordinator {

// Where an adopted job comes from, and who it will be here.
struct AdoptionSource {
  std::string folder;   // a job's checkpoint directory, absolute
  std::string id;       // empty: as it was called there
  std::string owner{};  // whose it will be; empty: nobody is asked who he is
  Accepts accepts{};
};

struct AdoptionPlan {
  std::string folder;
  std::string id;
  std::string cluster;  // whose checkpoints they are
  std::string job;      // as it was called there
  JobSpec spec;         // of the newest that can be used
  // Of manifest files, newest first, of which the first could be used. Some may be of another job.
  std::vector<std::pair<LineageNumber, Step>> places;
  std::vector<std::string> passed_over;  // newer ones, and what is wrong with each; for people
};
// What the newest manifest file that can be used says of the job, checked, and under which id it
// would be adopted by `cluster`; its segments have not been read. Newest: of the last lineage, the
// last step. kNotFound: no manifest file lies there; kFailedPrecondition: the cluster that the
// folder belongs to lives, or the folder is that of the job below `root`, this cluster's folder of
// checkpoints, or the file is of a version that this program does not know; kDataLoss: none can be
// used, and the message tells what is wrong with the newest one; kPermissionDenied.
absl::StatusOr<AdoptionPlan> PlanAdoption(const AdoptionSource& source, const std::string& cluster,
                                          const std::string& root);

// What can be used of a folder, and what was wrong with newer checkpoints.
struct AdoptedCopy {
  Adopt adopt;
  std::vector<std::string> passed_over;
};
using CopyProgress = std::function<void(uint64_t bytes, uint64_t of_bytes)>;

// Copies the newest of these checkpoints that is whole to `to`, the job's own files here, under
// this cluster's and the job's new name, each part checked on the way; then commits it. Small parts
// of it are in memory at a time. The caller has seen to it that there is no job of that id, and
// will be none meanwhile. After an error nothing of it is left, but for what a crash leaves, which
// DropUnknownJobs removes. kDataLoss: none of them is whole; kFailedPrecondition,
// kPermissionDenied: as above; kResourceExhausted: the disk is full; kCancelled: `stop`.
absl::StatusOr<AdoptedCopy> CopyAdopted(const AdoptionPlan& plan, Catalogue catalogue,
                                        const std::string& cluster, CheckpointFiles& to,
                                        const CopyProgress& progress, const std::stop_token& stop);

}  // namespace muster::coordinator
