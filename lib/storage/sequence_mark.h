// How many changes a store had written, in a small file outside of it: a store that opens with
// fewer has lost some, because a file of its log was deleted or cut or an older copy was brought
// back. The store itself cannot know: what a log lacks at its end looks like what was never
// written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"

namespace muster {

class SequenceMark {
 public:
  // The number in `file`; nothing: there is no such file. kDataLoss: it cannot be read;
  // others as ReadWholeFile.
  static absl::StatusOr<std::optional<uint64_t>> Read(const std::string& file);

  // Makes the file (its folder too) with this number, synced. Errors as FileError.
  static absl::StatusOr<std::unique_ptr<SequenceMark>> Begin(const std::string& file,
                                                             uint64_t sequence);
  ~SequenceMark();  // synced
  SequenceMark(const SequenceMark&) = delete;
  SequenceMark& operator=(const SequenceMark&) = delete;

  // So many changes are on disk. Not synced, which would double the cost of a write: the number
  // survives the end of the process, and after a loss of power it may be too low, which only hides
  // a loss, never too high. The same where it cannot be written. It never goes down. Thread-safe.
  void Reach(uint64_t sequence);

 private:
  SequenceMark(Descriptor file, uint64_t sequence) : file_(std::move(file)), sequence_(sequence) {}
  const Descriptor file_;
  Mutex mutex_;
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
