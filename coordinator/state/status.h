// What people are shown of jobs and members. Plain values that live until something newer is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/job_state.h"
#include "coordinator/state/stream_facts.h"
#include "lib/base/time.h"

namespace muster::coordinator {

struct MemberStatus {
  ViewMember member;
  bool up = false;
  std::string state;  // joined, forming, active, spare
  std::string phase;
  Step step;
  std::vector<LaneId> lanes;
  std::string host;  // on which it is placed; empty: no agent started it
};
struct JobStatus {
  JobJournal job;     // of a queued job, the reason says what it waits for
  Step step;          // steps recorded
  int64_t steps = 0;  // in all; 0: not known yet
  double loss = 0;    // mean of the last record
  std::optional<std::pair<Step, FingerprintPart>> fingerprint;
  std::vector<MemberStatus> members;
  bool may_have_members = false;  // or has, of its views: after a restart they may still come back
  std::vector<std::pair<LineageNumber, Step>> checkpoints;
  std::optional<StreamStatus> stream{};  // of a job that has one
  std::string waits_for;                 // the reason of the last decision
  // From here on in JobTable::StatusOf.
  size_t spec_bytes = 0;  // of job.spec, as kept_jobs.h counts them
  // Checkpoints that are being deleted as people asked, and how many of them were begun with since
  // this coordinator began.
  std::set<std::pair<LineageNumber, Step>> removing{};
  int64_t removals = 0;
};

// Without its members: those stand in the jobs, as placements.
struct HostStatus {
  std::string name;
  std::string node;
  int32_t slots = 0;
  bool up = false;    // its agent has a session
  Time away_since{};  // where it has none
  bool draining = false;
  std::string left_out{};  // why nothing new is placed there, for any job; empty: it is not so
  std::vector<HostDevice> devices{};
  std::string trusts{};  // as of AgentTrusts; empty: it has not said
};

}  // namespace muster::coordinator
