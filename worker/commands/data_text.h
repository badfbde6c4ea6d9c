// What `muster data` says, to people and to programs. Pure.
#pragma once

#include <string>

#include "lib/domain/job.h"
#include "worker/commands/data.h"

namespace muster::worker {

std::string InspectionAsText(const JobSpec& spec, const InspectedData& inspected);
std::string InspectionAsJson(const JobSpec& spec, const InspectedData& inspected);
std::string HashAsText(const HashedData& hashed);
std::string HashAsJson(const HashedData& hashed);

}  // namespace muster::worker
