// For lib/wire alone: fields of where a job starts that are more than one value.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"

namespace muster {

// A list of {from, to}. kInvalidArgument with the path, as in initial.map[1].from.
absl::Status ReadPrefixChanges(const Document& document, const nlohmann::json& value,
                               std::vector<PrefixChange>& map);
nlohmann::json FromPrefixChanges(const std::vector<PrefixChange>& map);
nlohmann::json PrefixChangesSchema();

// {job, step, digest, updates, average}, of which only the job is needed. kInvalidArgument with the
// path, as in initial.parent.step.
absl::Status ReadParent(const Document& document, const nlohmann::json& value,
                        std::optional<ParentState>& parent);
nlohmann::json FromParent(const std::optional<ParentState>& parent);
nlohmann::json ParentSchema();

}  // namespace muster
