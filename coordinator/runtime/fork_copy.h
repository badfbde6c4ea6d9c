// The first checkpoint of a fork (lib/domain/fork.h): a committed state of its parent, copied under
// the fork's name, so that whatever becomes of the parent the fork has it. Tensors, not chunks, are
// copied: the fork may have another grid.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/files.h"
#include "lib/domain/job.h"
#include "lib/domain/manifest.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

// Where a fork begins.
struct ForkSource {
  Manifest manifest;  // of the parent's checkpoint
  TrainingSpec training;
  NumericEnvironment environment;
};
struct ForkTarget {
  std::string id;
  JobSpec spec;  // as ForkedAt gives it
  std::string cluster;
};

// Makes and commits the checkpoint of step 0. The caller has seen to it that there is no job of
// that id, and will be none meanwhile. After an error nothing of it is left, but for what a crash
// leaves, which DropUnknownJobs removes. kNotFound, kDataLoss: the parent's checkpoint is not there
// any more, or damaged; kResourceExhausted: the disk is full; kCancelled: `stop`.
absl::StatusOr<Manifest> CopyFork(const ForkSource& source, const CheckpointFiles& from,
                                  const ForkTarget& target, Catalogue catalogue,
                                  CheckpointFiles& to, const std::stop_token& stop);

}  // namespace muster::coordinator
