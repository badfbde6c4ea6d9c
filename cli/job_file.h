// job.json of a run's folder: a folder holds one job.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"

namespace muster::cli {

// Id of the job that `folder` holds, or, where it holds none, of a new one that is written there.
// kFailedPrecondition: it holds a job under another law; the message names the fields. kDataLoss:
// the file cannot be read.
absl::StatusOr<std::string> JobIdOf(const std::string& folder, const JobSpec& spec);

// NAME-RANDOM.
std::string NewJobId(const std::string& job_name);

// "muster-runs/NAME-20261121-083200", not existing yet.
std::string FreshFolder(const std::string& job_name);

}  // namespace muster::cli
