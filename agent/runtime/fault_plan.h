// Fault plans as people write them:
//
//   seed: 7
//   faults:
//     - {at_step: 40, kill: worker-1}
//     - {at_step: 60, kill: coordinator, for_steps: 20}
//     - {at_second: 12, pause: random worker, for_seconds: 3}
//     - {at_point: "half_sent:3", kill: worker-2}
//     - {job: count-1, at_step: 9, kill: worker-0}
//
// or the list alone. What each field means stands in agent/state/faults.h.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/state/faults.h"

namespace muster::agent {

// The processes of a job besides the coordinator: worker-0 …, server-0 …, follower-0, reader-0. Of
// a cluster whose jobs are not known yet, the most that a job may have.
struct ProcessCounts {
  int workers = 0;
  int servers = 0;
  bool has_follower = false;  // follower-0
  bool has_reader = false;    // reader-0
};

// kInvalidArgument: names place, field, what was found and what is allowed; also where a fault
// names a process that the job does not have.
absl::StatusOr<FaultPlan> ParseFaultPlan(absl::string_view yaml, absl::string_view source,
                                         const ProcessCounts& processes);

}  // namespace muster::agent
