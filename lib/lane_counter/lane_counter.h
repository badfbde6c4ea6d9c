// How many lanes a worker has run, in a file that outlives the worker: its agent reads it after a
// SIGKILL, so that what a recovery computed again is known exactly.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/domain/message.h"
#include "lib/log/limited_log.h"

namespace muster {

// The worker's end. One thread counts. A count is one write: the kernel keeps it when the process
// dies (not when the machine does), and a file that somebody spoils meanwhile is an error and no
// signal, as it would be where the file is mapped (docs/decisions/0052-lanes-are-written.md).
class LaneCounter {
 public:
  // Adds a record to the file, which keeps those of earlier incarnations; makes file and folder if
  // missing. One process at a time. kUnavailable, kPermissionDenied or kResourceExhausted (the
  // disk is full) names the file, and so does kDataLoss: what lies there is no file.
  static absl::StatusOr<std::unique_ptr<LaneCounter>> Open(const std::string& path,
                                                           Incarnation incarnation);
  LaneCounter(const LaneCounter&) = delete;
  LaneCounter& operator=(const LaneCounter&) = delete;

  // A lane of that step is about to run. Where the file was cut, removed or replaced, a warning
  // says so, and it gets our whole count again: no lane is lost. Those of earlier incarnations were
  // told when they ended. Errors as those of Open: it cannot be written any more.
  absl::Status Count(LineageNumber lineage, Step step);

 private:
  LaneCounter(std::string path, Incarnation incarnation)
      : path_(std::move(path)), count_{.incarnation = incarnation} {}
  absl::Status Begin();
  absl::Status Write();

  const std::string path_;
  Descriptor file_;
  dev_t device_ = 0;  // with inode_: whether the path still leads to it
  ino_t inode_ = 0;
  off_t at_ = 0;  // of our record
  LaneCount count_;
  int64_t version_ = 0;
  LimitedLog spoiled_;
};

// One for each incarnation, in the order they started. Any process, also while the worker counts:
// then the count before or after the current lane. kNotFound: no such file; kDataLoss: not a
// counter of ours.
absl::StatusOr<std::vector<LaneCount>> ReadLaneCounts(const std::string& path);

}  // namespace muster
