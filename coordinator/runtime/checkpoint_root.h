// The folder of all checkpoints of a cluster. It belongs to one cluster, and one coordinator at a
// time holds it: another one would take the segments that only this one's manifests name for what
// aborted rounds left, and delete them.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"

namespace muster::coordinator {

class CheckpointRoot {
 public:
  // `path` is there. Its owner file, `path`/.owner, is made where there is none: whose the folder
  // is from then on. kFailedPrecondition: it belongs to another cluster; kAlreadyExists: another
  // coordinator holds it (a copy of our store is at work); kDataLoss: the owner file cannot be
  // read. Others as FileError.
  static absl::StatusOr<CheckpointRoot> Take(const std::string& path, const std::string& cluster);

 private:
  explicit CheckpointRoot(Descriptor lock) : lock_(std::move(lock)) {}
  Descriptor lock_;  // with its end, whoever waits may take it
};

}  // namespace muster::coordinator
