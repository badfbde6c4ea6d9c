// What the journal keeps of one job, as bytes: the state machine's value, and when it happened, for
// people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/state/job_state.h"

namespace muster::coordinator {

// Milliseconds since 1970 by the wall clock; 0: not yet.
struct JobTimes {
  int64_t submitted = 0;
  int64_t started = 0;
  int64_t ended = 0;
  bool operator==(const JobTimes&) const = default;
};

struct JournalEntry {
  JobJournal job;
  JobTimes times;
};

std::string EncodeJob(const JournalEntry& entry);
// kDataLoss: the message names the field.
absl::StatusOr<JournalEntry> DecodeJob(std::string_view bytes);

}  // namespace muster::coordinator
