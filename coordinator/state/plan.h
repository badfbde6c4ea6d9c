// The plan of a new view as a pure function: ranks, base, who heals how, who computes which lanes
// of the first step (docs/protocol.md section 4).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

struct Candidate {
  ViewMember member;         // rank and local rank are filled in by the plan
  std::optional<Rank> rank;  // in the last active view
  LocalState local_state;
  // A worker that keeps the lanes of the first step that it has, and gets nothing else. Not all
  // workers are.
  bool leaving = false;
};

struct PlanInput {
  std::string job;
  TermNumber term;
  ViewNumber number;
  Sync sync = Sync::kAllreduce;
  int32_t lanes = 1;
  int32_t chunks = 1;
  int32_t bucket_chunks = 1;
  std::vector<Lineage> lineages;  // the last one is current; empty: no state exists yet
  std::vector<Candidate> candidates;
  std::optional<Manifest> checkpoint;  // newest usable one, for a rewind
  bool must_rewind = false;            // start or resume: no live state is asked for
  std::string rewind_cause;
  Step end;
};

struct Planned {
  HealPlan heal;
  View view;
  std::optional<Lineage> rewind;   // the new lineage, when there is no base
  std::vector<LaneId> reassigned;  // lanes of the first step that nobody holds and that must be
                                   // run: none when all is done
  std::string why;                 // for people
};

// What a plan says of each chunk, and of each part of a checkpoint, stands in one header.
// kInvalidArgument: the model has more than fit.
absl::Status CheckPlanFits(const Layout& layout, int32_t slots);

// candidates holds at least one worker and, with Sync::kServer, every server the job needs.
Planned PlanView(PlanInput input);

// Is state(step) of `lineage` on the ancestry of the current lineage?
bool OnAncestry(const std::vector<Lineage>& lineages, LineageNumber lineage, Step step);

}  // namespace muster::coordinator
