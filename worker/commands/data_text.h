// What `muster data` says, to people and to programs. Pure.
#pragma once

#include <string>

#include "lib/domain/job.h"
#include "worker/commands/convert.h"
#include "worker/commands/data.h"

namespace muster::worker {

std::string InspectionAsText(const JobSpec& spec, const InspectedData& inspected);
std::string InspectionAsJson(const JobSpec& spec, const InspectedData& inspected);
// With the fields of `data` by which a job reads what was written as it read `spec`.
std::string ConversionAsText(const JobSpec& spec, const ConvertedData& converted);
std::string ConversionAsJson(const JobSpec& spec, const ConvertedData& converted);
std::string HashAsText(const HashedData& hashed);
std::string HashAsJson(const HashedData& hashed);

}  // namespace muster::worker
