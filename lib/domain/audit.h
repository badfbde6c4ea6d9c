// The audit over the records of a job (docs/protocol.md section 8). Pure.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/domain/job.h"
#include "lib/domain/ledger.h"
#include "lib/domain/samples.h"

namespace muster {

struct AuditReport {
  bool ok = false;
  std::string conclusion;  // one sentence; names the first violation
  int64_t steps = 0;
  int64_t full_epochs = 0;
  uint64_t samples = 0;          // uses in the final state
  int64_t skipped_steps = 0;     // those that were not finite, counted in `steps` too …
  uint64_t skipped_samples = 0;  // … and the uses that are not in the final state because of that
  uint64_t left_out_samples = 0;  // uses of samples that could not be read, and that it tells
  int64_t lanes = 0;
};

// Proves from the records that made the final state that each sample is in it once per full epoch
// (and at most once in the last, unfinished one), that every lane of every step has one holder, and
// that the weights are whole. The samples of steps that were skipped had their turn, but are not in
// the final state: they are counted apart, and so are samples that could not be read, of which the
// records say that they were left out. It takes the records in the order of steps and keeps
// none: its memory depends neither on how many there are nor on how many samples.
class Auditor {
 public:
  // `first`: the records begin there, and somebody else vouches for the steps below. They count as
  // steps and as epochs, not as samples and lanes.
  Auditor(TrainingSpec training, uint64_t sample_count, Step first = Step(0));
  // False: no more is to be looked at, because of a violation or of `stop`.
  bool Add(const StepRecord& record, const std::stop_token& stop = {});
  // Of the records below `end`.
  AuditReport Conclude(Step end) &&;

 private:
  std::string OrderViolation(const SampleRange& range, const std::stop_token& stop);
  std::string EpochViolation() const;
  std::string WhatOfStream() const;
  void Sum();

  const TrainingSpec training_;
  const uint64_t sample_count_;
  AuditReport report_;
  int64_t epoch_ = 0;
  EpochOrder order_;   // of the epoch
  uint64_t next_ = 0;  // the first position of it that was not used yet
};

// Of all of them at once.
AuditReport Audit(const TrainingSpec& training, uint64_t sample_count,
                  const std::vector<StepRecord>& ancestry);

}  // namespace muster
