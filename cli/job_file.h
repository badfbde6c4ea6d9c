// job.json of a run's folder: a folder holds one job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/domain/job.h"

namespace muster::cli {

// Id of the job that `folder` holds, or, where it holds none, of a new one that is written there:
// `new_id`, or where that is empty one that no other job has. Then the specification there is this
// one.
// kFailedPrecondition: it holds a job under another training specification; the message names the
// fields. kDataLoss: the file cannot be read.
absl::StatusOr<std::string> JobIdOf(const std::string& folder, const JobSpec& spec,
                                    const std::string& new_id = "");

// What differs between the specification there and this one, a line for each field, as of
// TrainingDifferences. Empty: nothing, or there is none that can be read.
std::vector<std::string> DifferencesFrom(const std::string& folder, const JobSpec& spec);

// result.json of a run's folder: how its job ended, for people; what counts is in the journal. An
// error names the file.
absl::Status KeepResult(const std::string& folder, const std::string& json);
// Whether it tells of this end of the job, and not of an earlier one.
bool HasResultOf(const std::string& folder, const std::string& state, int64_t steps);
// What the trained model wrote at this end of the job; empty: the file does not tell.
std::string KeptSample(const std::string& folder, const std::string& id, const std::string& state,
                       int64_t steps);

// NAME-RANDOM.
std::string NewJobId(const std::string& job_name);

// "muster-runs/NAME-20261121-083200", not existing yet.
std::string FreshFolder(const std::string& job_name);

}  // namespace muster::cli
