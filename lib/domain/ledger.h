// The record of a step, and which records count (docs/protocol.md section 8). Pure values and
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/domain/job.h"
#include "lib/domain/measure.h"
#include "lib/domain/samples.h"
#include "lib/domain/view.h"

namespace muster {

// A command rides in chunk 0's result and so is part of what is known of the step: it takes effect
// at the step boundary after the step.
// kEnough comes from the state itself, and all members find it at the same step: what was measured
// has been no better for as long as the job says.
enum class JobCommandKind { kCheckpoint, kStop, kEnough };
struct JobCommand {
  int64_t id = 0;  // grows; given by the coordinator; 0 of kEnough
  JobCommandKind kind = JobCommandKind::kCheckpoint;
  auto operator<=>(const JobCommand&) const = default;
};

// A 128-bit wrapping sum over (name, slot, index, bits) of a state, or of the part of it that a
// member holds.
struct FingerprintPart {
  uint64_t hi = 0;
  uint64_t lo = 0;
  bool whole = false;  // all of the state; else the parts of the servers of a view add up to it
  auto operator<=>(const FingerprintPart&) const = default;
};

std::string ToHex(const FingerprintPart& part);  // 32 lower-case digits, hi first

struct StepRecord {
  LineageNumber lineage;
  Step step;
  ViewNumber view;
  LaneHolders lane_holders;                    // who computed each lane
  SampleRange samples;                         // the step's, whole batch
  int64_t weight = 0;                          // of the root
  double loss = 0;                             // sum over the batch
  std::optional<FingerprintPart> fingerprint;  // of state(step + 1), by the member that reports
  // By a server that owns only buffers: it knows neither weight nor loss.
  bool without_weight = false;
  std::vector<JobCommand> commands;
  bool skipped = false;        // it was not finite, and left the state as it was
  std::optional<double> norm;  // of the gradient before it is cut; nothing: it is not measured
  // Of state(step), by metric, where the step measures it and was not skipped (validation.h).
  std::vector<Measure> measures{};
  int64_t cuts = 0;  // of the rate before this step, by schedule.kind: plateau
  // Positions in `samples`, ascending: those that could not be read (data.on_bad_sample: skip).
  std::vector<uint64_t> left_out{};
  bool operator==(const StepRecord&) const = default;
};

// What is counted of the steps that led to a state.
struct StepTally {
  int64_t skipped = 0;   // steps that were not finite
  int64_t left_out = 0;  // uses of samples that could not be read
  bool operator==(const StepTally&) const = default;
};
void Count(const StepRecord& record, StepTally& tally);

// As IsWeightOf of its samples, without those that were left out. A skipped step does not tell
// which these are.
bool HasWeight(const TrainingSpec& training, const StepRecord& record);

// Why it cannot have left out what it names; empty: it can.
std::string WhyNotLeftOut(const TrainingSpec& training, const StepRecord& record);

// Nothing: the step had no samples.
std::optional<double> MeanLoss(const StepRecord& record);

// As the ledger keeps it.
struct RecordedStep {
  StepRecord record;
  int64_t unix_ms = 0;  // when it was written; 0: not known
  bool operator==(const RecordedStep&) const = default;
};
struct RecordedFact {
  MeasureFact fact;
  int64_t unix_ms = 0;  // likewise
  bool operator==(const RecordedFact&) const = default;
};

// A lineage forks from its parent at a step: the parent's records below `fork` are on its ancestry.
struct Lineage {
  LineageNumber number;
  LineageNumber parent;  // 0: none
  Step fork;             // first step done on this lineage
  std::string cause;     // for people
  bool operator==(const Lineage&) const = default;
};

// Steps of one lineage.
struct LineagePart {
  LineageNumber lineage;
  Step first;
  Step end;  // behind the last
  bool operator==(const LineagePart&) const = default;
};
// Of which lineage each step is in the history of the newest one: ascending, and nothing stands
// twice. The last part has no end (the largest Step).
std::vector<LineagePart> HistoryOf(const std::vector<Lineage>& lineages);

// Where a copy of the history goes on that has the steps below `next`, the last one of lineage
// `held`: a rewind since then may have left some of them out. 0: it does not know, and has them
// all.
Step ContinueAt(const std::vector<LineagePart>& history, LineageNumber held, Step next);

}  // namespace muster
