// muster checkpoints: what lies in a job's folder of checkpoints, read and changed on this machine,
// or through the coordinator of a cluster that stays up.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/cluster_files.h"
#include "cli/rest_client.h"
#include "lib/base/descriptor.h"
#include "lib/base/ids.h"

namespace muster::cli {

// Takes a checkpoint out of the store of the cluster in `dir`, in which nothing runs, before its
// files go. OK where there is no store, or it does not know the checkpoint.
using ForgetCheckpoint = std::function<absl::Status(const std::string& dir, const std::string& job,
                                                    LineageNumber lineage, Step step)>;

// Keeps coordinators out of the folder `root` of all checkpoints of a cluster, while it is open.
// kFailedPrecondition: one works there.
using HoldRoot = std::function<absl::StatusOr<Descriptor>(const std::string& root)>;

// Does what is asked and tells of it on `out`. Errors as of FindCheckpoint; kDataLoss: a checkpoint
// is damaged; kFailedPrecondition: it may not go, or something runs in the folder;
// kAlreadyExists: another one has the name.
absl::Status Checkpoints(const CheckpointsArguments& arguments, const ForgetCheckpoint& forget,
                         const HoldRoot& hold, std::ostream& out);
// The same of a job of the cluster that `rest` asks. Errors of FindInCluster; kFailedPrecondition,
// too: what is read went meanwhile.
absl::Status CheckpointsOfCluster(const CheckpointsArguments& arguments, const RestClient& rest,
                                  std::ostream& out, ClusterFilesPatience patience = {});

}  // namespace muster::cli
