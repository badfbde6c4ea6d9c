// How this process computes: its part of the numeric environment, which must be equal on all
// members of a job (docs/architecture.md section 1).
#pragma once

#include <map>
#include <string>

#include "absl/types/span.h"
#include "lib/domain/job.h"

namespace muster {

// Those of our own kernels: instruction set, rounding and flushing, and fingerprints of what the
// job's optimizer and schedule make of a small fixed input. On a thread whose float environment is
// set.
std::map<std::string, std::string> KernelProperties(const TrainingSpec& training);

// What kSyncOrder says of phases with these names, in the order in which a lane meets them.
std::string SyncOrder(absl::Span<const std::string> phases);

}  // namespace muster
