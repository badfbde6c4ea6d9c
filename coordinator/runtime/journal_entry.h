// What the journal keeps of one job, as bytes: the state machine's value, and for people when it
// happened and what its last step gave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/pace.h"
#include "coordinator/state/job_state.h"
#include "coordinator/state/stream_facts.h"
#include "lib/domain/measure.h"

namespace muster::coordinator {

// Milliseconds since 1970 by the wall clock; 0: not yet.
struct JobTimes {
  int64_t submitted = 0;
  int64_t started = 0;
  int64_t ended = 0;
  bool operator==(const JobTimes&) const = default;
};

struct FingerprintEntry {
  LineageNumber lineage;
  Step step;
  FingerprintPart value;
  bool operator==(const FingerprintEntry&) const = default;
};

// Of the last step that measured. The measures are of the state before it.
struct MeasuredEntry {
  LineageNumber lineage;
  Step step;
  std::vector<Measure> measures{};
  bool operator==(const MeasuredEntry&) const = default;
};

// What is known of a job's last step. In the journal as of its last entry: for a job that can go on
// the ledger knows better.
struct JobTail {
  std::optional<double> loss;  // mean of the last record
  std::optional<FingerprintEntry> fingerprint;
  std::optional<MeasuredEntry> measured{};
  Pace pace{};  // only in memory
};

struct JournalEntry {
  JobJournal job;
  JobTimes times;
  JobTail tail;
};

// A row of its own, that changes often.
std::string EncodeStreamMark(const StreamMark& mark);
// kDataLoss: the message names the field.
absl::StatusOr<StreamMark> DecodeStreamMark(std::string_view bytes);

std::string EncodeJob(const JournalEntry& entry);
// kDataLoss: the message names the field.
absl::StatusOr<JournalEntry> DecodeJob(std::string_view bytes);

}  // namespace muster::coordinator
