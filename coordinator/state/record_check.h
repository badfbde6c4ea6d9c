// Whether a record can be a sound member's: all of it that the coordinator knows by itself
// (docs/protocol.md section 8). Pure.
#pragma once

#include <optional>
#include <string>

#include "coordinator/state/job_state.h"
#include "lib/domain/ledger.h"
#include "lib/domain/stream.h"

namespace muster::coordinator {

struct RecordFault {
  std::string kind;  // of a few, without what the member said
  std::string why;   // names the field
};

// `record` is of the job's current lineage; records of steps below `recorded` are in the ledger.
// `stream`: what is known of the job's, if it has one. `fact`: what a follower measured of the
// state whose measure it brings; null: that is not known, or it brings none.
std::optional<RecordFault> FaultOf(const StepRecord& record, const JobJournal& job,
                                   const StreamKnown& stream, Step recorded,
                                   const MeasureSums* fact = nullptr);

}  // namespace muster::coordinator
