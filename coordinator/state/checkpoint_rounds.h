// Checkpoints of a job: those that are committed, and the rounds whose segments are being collected
// (docs/protocol.md section 7). Lives as long as its JobRun. A round lives from its first segment
// until a checkpoint as new as it is committed, or until it is given up.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

// A segment that is in a checkpoint, or of no use any more: its writer is told, and does not tell
// of it again.
struct SegmentToAcknowledge {
  MemberId writer;
  int64_t id = 0;
  bool operator==(const SegmentToAcknowledge&) const = default;
};

class CheckpointRounds {
 public:
  explicit CheckpointRounds(std::vector<Manifest> committed) : committed_(std::move(committed)) {}

  // Takes a segment of the current lineage. False: it is of no use, because a checkpoint as new is
  // there, or its round was given up.
  bool Offer(const MemberId& writer, const SegmentWritten& written);
  // The newest round whose `parts` are all there and whose records are, too, or the oldest such one
  // that is `wanted`, since with a newer one it would go; from now on it is being committed.
  // Returns its step and segments; nothing if no round is complete, or if a commit is under way:
  // manifests are committed in the order of their steps.
  // One that is `held` waits for something else.
  std::optional<Manifest> Begin(
      Step recorded, size_t parts,
      const std::function<bool(Step)>& wanted = [](Step) { return false; },
      const std::function<bool(Step)>& held = [](Step) { return false; });
  // Of rounds that are held, older ones go where a newer one has all its parts.
  std::vector<SegmentToAcknowledge> KeepNewest(size_t parts, const std::function<bool(Step)>& held,
                                               const std::function<bool(Step)>& wanted);
  // Parts of this round that members have told.
  bool HasPart(Step step, int32_t slot, ChunkId chunk) const;
  bool committing() const;
  // All its parts are there: it is committed, or being committed, and can be read, as far as is
  // known. What a member could not write of it once more is not missing.
  bool HasAllOf(LineageNumber lineage, Step step) const;
  // Of those on the ancestry it keeps what `keep` says and the newest that is finite, as the
  // catalogue does: to others nobody goes back by himself. What was collected for this one and
  // older ones is to be acknowledged.
  std::vector<SegmentToAcknowledge> Commit(const Manifest& manifest,
                                           const std::vector<Lineage>& lineages,
                                           const KeepRule& keep);
  // As Commit does, for what was committed before.
  void Prune(const KeepRule& keep);
  bool HasRound(Step step) const { return rounds_.count(step) > 0; }
  void Postpone(Step step);  // it could not be committed: waits for TryAgain
  void TryAgain();
  std::vector<SegmentToAcknowledge> Drop(Step step);
  // A member has no part of it: what others write of it is of no use either, until Renew.
  std::vector<SegmentToAcknowledge> GiveUp(Step step, bool disk_is_slow);
  // How much rarer rounds that come by time are to be: while they are given up because a disk is
  // slow, members have ever more time to write what they have, until all have room for the same
  // one. Where a part could not be written at all, waiting longer would not help.
  int64_t spacing() const { return spacing_; }
  // A view begins, in which a round that was given up may be written again.
  void Renew() { given_up_.clear(); }
  std::vector<SegmentToAcknowledge> DropAll();

  const std::vector<Manifest>& committed() const { return committed_; }  // oldest first
  bool IsNewest(LineageNumber lineage, Step step) const;  // and can be read, as far as is known
  // It cannot be read. Another of its lineage and step may take its place.
  void PassOver(const Manifest& damaged);
  bool IsPassedOver(LineageNumber lineage, Step step) const {
    return damaged_.count({lineage, step}) > 0;
  }
  bool passed_over() const { return !damaged_.empty(); }
  // The newest on the ancestry that is not known to be damaged; with `only`: that of this step.
  std::optional<Manifest> Usable(const std::vector<Lineage>& lineages,
                                 std::optional<Step> only) const;

 private:
  struct Round {
    std::set<std::pair<int32_t, ChunkId>> covered;
    std::vector<std::pair<MemberId, SegmentWritten>> segments;
    bool committing = false;
    bool postponed = false;
  };

  std::map<Step, Round> rounds_;   // of the current lineage
  std::map<Step, bool> given_up_;  // in the view now, the newest ones: true: a disk is slow
  int64_t spacing_ = 1;
  std::vector<Manifest> committed_;  // those that are kept, and those that a start found
  std::set<std::pair<LineageNumber, Step>> damaged_;
};

// The job's last checkpoint, without which it does not end: when it is tried again. Lives as long
// as its JobRun.
class LastCheckpoint {
 public:
  struct Patience {
    Duration first_retry;
    Duration longest_retry;
    int retries = 0;
  };
  explicit LastCheckpoint(Patience patience) : patience_(patience) {}

  // False: it has failed too often. Failures that come before the next try count once.
  bool Fail(bool write_again, Time now);
  int failures() const { return failures_; }
  void Arrived() { retry_at_.reset(); }
  bool waits_for_retry() const { return retry_at_.has_value(); }
  // True, once: it is time to try again.
  bool RetryIsDue(Time now);
  // True, once: its parts must be written again, not only committed.
  bool MustBeWritten();
  // Since when it is all that is missing. WaitsNoMore tells that something else is missing too.
  Time WaitsSince(Time now);
  void WaitsNoMore() { waits_since_.reset(); }

 private:
  const Patience patience_;
  int failures_ = 0;
  std::optional<Time> retry_at_;
  bool write_again_ = false;
  std::optional<Time> waits_since_;  // in this view
};

}  // namespace muster::coordinator
