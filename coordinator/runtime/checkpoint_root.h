// The folder of all checkpoints of a cluster. It belongs to one cluster, and one coordinator at a
// time holds it: another one would take the segments that only this one's manifests name for what
// aborted rounds left, and delete them.
//
// A lock alone does not keep two of one cluster apart: a copy of a journal begins with the same
// term as the one that it was copied from, and a file system of several hosts may lose its locks
// with the host. So each coordinator claims its term here, by a file that is made once and never
// replaced, and of all claims the latest counts. The journal keeps what it claimed last: whoever
// finds a later claim, or another one of that term, works on an older copy, however often it has
// begun a term since.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace muster::coordinator {

class CheckpointRoot {
 public:
  // `path` is there. Its owner file, `path`/.owner, is made where there is none: whose the folder
  // is from then on. kFailedPrecondition: it belongs to another cluster; kAlreadyExists: another
  // coordinator holds it (a copy of our store is at work); kDataLoss: the owner file cannot be
  // read, or our journal is an older copy by the claims. Others as FileError. `claimed`: what the
  // journal has of it; `note` writes it there, before others can see the claim.
  static absl::StatusOr<CheckpointRoot> Take(
      const std::string& path, const std::string& cluster, TermNumber term,
      const std::string& claimed, const std::function<absl::Status(const std::string&)>& note);

  // kAborted: a later term was claimed since, so that nothing here is ours to delete any more, and
  // nothing to commit. Any other error: nobody knows now. While it is ours, each look makes the
  // claim young again (CheckNobodyLives). Takes as long as the folder's disk does. Any thread.
  absl::Status CheckClaim() const;

 private:
  CheckpointRoot(std::string path, std::string cluster, TermNumber term, Descriptor lock)
      : path_(std::move(path)), cluster_(std::move(cluster)), term_(term), lock_(std::move(lock)) {}
  std::string path_, cluster_;
  TermNumber term_;
  Descriptor lock_;  // with its end, whoever waits may take it
};

// How young a claim is while its coordinator lives, which renews it once a second or so; there is
// room for a slow disk, and for clocks of two machines that are not the same.
inline constexpr Duration kYoungClaim = std::chrono::seconds(60);

// kFailedPrecondition: the folder `path` is claimed by another cluster than `cluster` (empty: by
// any), whose coordinator lives: its claim is young. OK: there is no such claim, or nobody may
// look.
absl::Status CheckNobodyLives(const std::string& path, const std::string& cluster);

// For whoever changes checkpoints in the folder `path` and is no coordinator: while it is open,
// none of this machine takes the folder. kFailedPrecondition: one works there, by its lock or, as
// it may be on another machine, by its claim that is young. Others as FileError.
absl::StatusOr<Descriptor> HoldAtRest(const std::string& path);

}  // namespace muster::coordinator
