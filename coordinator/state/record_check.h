// Whether a record can be a sound member's: all of it that the coordinator knows by itself
// (docs/protocol.md section 8). Pure.
#pragma once

#include <optional>
#include <string>

#include "coordinator/state/job_state.h"
#include "lib/domain/ledger.h"

namespace muster::coordinator {

struct RecordFault {
  std::string kind;  // of a few, without what the member said
  std::string why;   // names the field
};

// `record` is of the job's current lineage; records of steps below `recorded` are in the ledger.
std::optional<RecordFault> FaultOf(const StepRecord& record, const JobJournal& job, Step recorded);

}  // namespace muster::coordinator
