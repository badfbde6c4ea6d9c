// For lib/wire alone: what a job says of a stream that it trains on
// (docs/decisions/0112-streams.md) that is more than one value, and what cannot go together with
// one.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"

namespace muster {

inline constexpr size_t kMostStreamFields = 256;
inline constexpr int64_t kMostStreamBytes = int64_t{1} << 60;  // of a spool

// The value of `data.stream.fields`, a list of {name, type, shape}. kInvalidArgument with the path,
// as in data.stream.fields[1].type.
absl::Status ReadStreamFields(const Document& document, const nlohmann::json& value,
                              std::vector<DataField>& fields);
nlohmann::json FromStreamFields(const std::vector<DataField>& fields);  // null: there are none
nlohmann::json StreamFieldsSchema();

// Once all is read: what a job with a stream needs and has not, or has and cannot have.
absl::Status CheckStream(const Document& document, const JobSpec& spec);

}  // namespace muster
