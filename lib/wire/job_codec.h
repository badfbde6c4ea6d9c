// Job specifications as people and programs write them: YAML and JSON with the same flat fields,
// and one table that says of each field where it lives, what it may be, and of which part of the
// specification it is (docs/job-spec.md lists them).
// Protobuf: lib/wire/job_codec_proto.h.
//
// Errors are kInvalidArgument; they name the place, the field, what was found and what is allowed,
// as in
//   examples/a.yaml:7: optimizer.kind: 'adamm' is not known; allowed: sgd, momentum, adam, adamw
// and FieldOf(status) (lib/config/field_error.h) gives the field alone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/config/field_error.h"
#include "lib/domain/job.h"

namespace muster {

// What they return is complete (every parameter of the task present) and valid. `source` is what
// errors call the text; `settings` are "optimizer.learning_rate=0.1" (--set), applied to the
// document before it is read.
absl::StatusOr<JobSpec> ParseJobYaml(absl::string_view text, absl::string_view source,
                                     absl::Span<const std::string> settings = {});
absl::StatusOr<JobSpec> ParseJobJson(absl::string_view text, absl::string_view source = "");
// What ToJson wrote, of an earlier version, too: where `restarts` is missing, `retries` had its
// meaning. With `settings` (--set) it is as a fork with them: what has no meaning any more is left
// out, as whoever gives them cannot edit what is stored.
absl::StatusOr<JobSpec> ParseStoredJob(absl::string_view json, absl::string_view source = "",
                                       absl::Span<const std::string> settings = {});

// A job that is a fork at `state` of the one with this specification: the same but for what
// `settings` say. What has no meaning with these any more is left out, such as the momentum where
// the optimizer is another, and so is where the parent itself began and was resumed.
absl::StatusOr<JobSpec> ForkOf(const JobSpec& parent, const ParentState& state,
                               absl::Span<const std::string> settings = {});

// Canonical: keys in order, defaults written out, fields that have no meaning for this job (beta1
// of sgd) left out. Parse…(To…(spec)) == spec for every valid spec. 64-bit numbers are JSON
// numbers; readers also accept decimal text.
std::string ToJson(const JobSpec& spec);
std::string ToYaml(const JobSpec& spec);

// For specs made in code: fills in what is absent (the task's parameters, servers) and checks
// everything.
absl::StatusOr<JobSpec> Complete(const JobSpec& spec);
// Complete(spec) succeeds and changes nothing.
absl::Status Validate(const JobSpec& spec);

// SHA-256 (64 lower-case digits) of the training specification's canonical JSON: equal
// specifications have equal hashes in every build of Muster.
std::string TrainingHash(const TrainingSpec& training);
// One line for each field that differs, with both values: "lanes: 4 against 6". Empty: they are
// equal.
std::vector<std::string> TrainingDifferences(const TrainingSpec& ours, const TrainingSpec& theirs);
// Likewise of what may differ from one start to the next, in the runtime specification; without
// `resume`, which says where a start begins and is nothing that it is run with.
std::vector<std::string> RuntimeDifferences(const JobSpec& ours, const JobSpec& theirs);

// A JSON object with some of the fields priority, deadline, time_to_live, retries and labels (null:
// its default; of a label: it is taken away).
absl::StatusOr<QueueChange> ParseQueueChange(absl::string_view json);
// `held` with the change, if that is allowed.
absl::StatusOr<QueueSpec> Changed(const QueueSpec& held, const QueueChange& change);

enum class SpecPart { kTraining, kRuntime, kQueue };
const char* PartName(SpecPart part);  // "training" …

// The schema as data: for documentation, completion and tests.
struct JobField {
  std::string name;  // "optimizer.kind"
  SpecPart part = SpecPart::kRuntime;
  std::string default_value;  // as JSON, or how it is found; empty: none, the field is needed
  std::string allowed;        // "1 … 4096"; "sgd, momentum, adam, adamw"
};
std::vector<JobField> JobFields();  // in the order of docs/job-spec.md

// Of a job that does not say: as many as most numbers of workers divide, and never more than batch.
inline constexpr int64_t kDefaultLanes = 12;
inline constexpr int32_t kMaxProcesses = 4096;  // workers, or servers, of a job

}  // namespace muster
