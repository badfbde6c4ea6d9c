// For lib/wire alone: fields of what is kept of a job that are more than one value.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"

namespace muster {

// A number, or {last, every, every_epochs, best}.
absl::Status ReadKeep(const Document& document, const nlohmann::json& value,
                      CheckpointPolicy& policy);
// What is kept as the best is measured.
absl::Status CheckKeep(const Document& document, const JobSpec& spec);
nlohmann::json FromKeep(const CheckpointPolicy& policy);
nlohmann::json KeepSchema();
inline constexpr int64_t kMostKept = 1'000'000;

}  // namespace muster
