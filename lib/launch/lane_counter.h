// How many lanes a worker has run, in a file that outlives the worker: its agent reads it after a
// SIGKILL, so that what a recovery computed again is known exactly.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/domain/message.h"

namespace muster {

// The worker's end. One thread counts. The file is mapped: a count costs a few stores, and the
// kernel keeps them when the process dies (not when the machine does).
class LaneCounter {
 public:
  // Makes or resets the file; its folder is made if missing. kUnavailable or kPermissionDenied
  // names the file.
  static absl::StatusOr<std::unique_ptr<LaneCounter>> Open(const std::string& path,
                                                           Incarnation incarnation);
  ~LaneCounter();
  LaneCounter(const LaneCounter&) = delete;
  LaneCounter& operator=(const LaneCounter&) = delete;

  // A lane of that step is about to run.
  void Count(LineageNumber lineage, Step step);

 private:
  struct Page;
  explicit LaneCounter(Page* page) : page_(page) {}
  Page* const page_;
};

// Any process, also while the worker counts: then the count before or after the current lane.
// kNotFound: no such file; kDataLoss: not a counter of ours.
absl::StatusOr<LaneCount> ReadLaneCount(const std::string& path);

}  // namespace muster
