// How a run of one job ended, for programs and for people. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/rest_client.h"
#include "lib/base/exit_codes.h"

namespace muster::cli {

struct JobResult {
  // Not OK: the run ended before its job. The cluster could not be made, the folder holds another
  // training specification, the job was refused, the coordinator would not stay up, or the run was
  // interrupted (kCancelled).
  absl::Status error;
  // As last heard. Where the run ended before its job, the state is "interrupted" or "failed".
  JobAnswer job;
  std::vector<StepFingerprint> fingerprints;
  std::optional<double> first_loss;
  int64_t steps_before = 0;     // of the job, from earlier runs; nothing of them is in `seconds`
  bool was_over = false;        // before this run
  double seconds = 0;           // from the start of the cluster to the end of the job
  int exit_code = kExitFailed;  // of `muster train`
  std::string sample;           // text that the trained model made, fit for a terminal; empty: none
  std::string folder;
  // When a process was lost, a view changed or the coordinator came back.
  int64_t last_disturbed_step = 0;
  int64_t steps_without_coordinator = 0;   // that were shown while it was down
  std::vector<std::string> missed_faults;  // of the fault plan, that did not happen
};

// Of a run that could not even begin.
JobResult FailedResult(const absl::Status& error);

// The last object of --json.
std::string ResultJson(const JobResult& result);
// The same for people, in a few lines.
std::string ResultText(const JobResult& result);
// The command that measures the final state of a job with validation that was done without that
// measure, as its reason says. `plugins`: the folders that it ran with. Empty: it has the measure,
// is not done, or has no checkpoint of that state.
std::string CommandToMeasure(const JobResult& result, const std::vector<std::string>& plugins);

}  // namespace muster::cli
