// What this member has told the coordinator, or is about to, and the coordinator has not
// acknowledged: records of steps and segments of checkpoints. Lives as long as the member.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "lib/member/state/actions.h"

namespace muster {

class Outbox {
 public:
  explicit Outbox(Role role) : role_(role) {}

  // `sealed`, here and below: the highest view that we were sealed for or active in. While it is
  // the record's own, the coordinator has that view and is not told the lane holders again.

  // A step is done here. `awaits_fingerprint`: the record goes out when the fingerprint of the
  // state after the step is there.
  std::vector<Action> Add(StepRecord record, bool awaits_fingerprint, ViewNumber sealed);
  std::vector<Action> AddFingerprint(Step of_state, FingerprintPart fingerprint, ViewNumber sealed);
  // A segment is on disk; it gets its number.
  Action Add(SegmentWritten written);
  // Nobody acknowledges it: it is told again until a later step is in the ledger, since a
  // coordinator waits for it at the end.
  Action Add(LanesNotFinite found);

  // All that is not acknowledged, in frames of a bounded size: the coordinator may have been away
  // for many steps.
  std::vector<Action> TellAgain(ViewNumber sealed) const;
  std::vector<Action> TellRecordsAgain(ViewNumber sealed) const;  // without the segments
  void Acknowledge(const AckRecords& ack);
  // Returns those that were not acknowledged before.
  std::vector<SegmentWritten> Acknowledge(const AckSegments& ack);
  // Records of voided lineages are of no use to anybody.
  void KeepOnly(LineageNumber lineage);

  // The newest word on what is in the ledger; lineage 0: there was none.
  const AckRecords& acknowledged() const { return acknowledged_; }

  size_t records() const { return records_.size(); }
  // A record that was not told yet: the fingerprint that belongs to it is being made.
  bool AwaitsFingerprint() const { return !unfinished_.empty(); }

 private:
  std::vector<Action> Send(StepRecord record, ViewNumber sealed);

  Role role_;
  std::deque<StepRecord> records_;         // in the order in which they were sent
  std::map<Step, StepRecord> unfinished_;  // by the state whose fingerprint they wait for
  std::map<int64_t, SegmentWritten> segments_;
  std::optional<LanesNotFinite> not_finite_;
  AckRecords acknowledged_;
  int64_t next_segment_ = 1;
};

}  // namespace muster
