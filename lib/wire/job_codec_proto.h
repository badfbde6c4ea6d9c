// Job specifications as protobuf messages, by the same table as YAML and JSON.
#pragma once

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Complete and valid, or kInvalidArgument with FieldOf(status). Fields that this build does not
// know are refused too: they might decide bits of the result.
absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& message);

// `spec` is valid. FromProto(ToProto(spec)) == spec.
v1::JobSpec ToProto(const JobSpec& spec);

}  // namespace muster
