// How many lanes a worker has run, in a file that outlives the worker: its agent reads it after a
// SIGKILL, so that what a recovery computed again is known exactly.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/message.h"

namespace muster {

// The worker's end. One thread counts. The file is mapped: a count costs a few stores, and the
// kernel keeps them when the process dies (not when the machine does).
class LaneCounter {
 public:
  // Adds a record to the file, which keeps those of earlier incarnations; makes file and folder if
  // missing. One process at a time. kUnavailable, kPermissionDenied or kResourceExhausted (the
  // disk is full) names the file.
  static absl::StatusOr<std::unique_ptr<LaneCounter>> Open(const std::string& path,
                                                           Incarnation incarnation);
  ~LaneCounter();
  LaneCounter(const LaneCounter&) = delete;
  LaneCounter& operator=(const LaneCounter&) = delete;

  // A lane of that step is about to run.
  void Count(LineageNumber lineage, Step step);

 private:
  struct Record;
  LaneCounter(void* mapping, Record* record) : mapping_(mapping), record_(record) {}
  void* const mapping_;
  Record* const record_;
};

// One for each incarnation, in the order they started. Any process, also while the worker counts:
// then the count before or after the current lane. kNotFound: no such file; kDataLoss: not a
// counter of ours.
absl::StatusOr<std::vector<LaneCount>> ReadLaneCounts(const std::string& path);

}  // namespace muster
