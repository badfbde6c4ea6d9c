// For lib/wire alone: the schema of a job specification as a table, one line a field: where it
// lives in JobSpec, what it may be, of which part of the specification it is, and for which jobs it
// means anything. Everything else about specifications (documents, hash, differences,
// documentation) walks this table.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"
#include "lib/wire/job_codec.h"

namespace muster {

// One field of the schema.
struct FieldRule {
  std::string name;
  SpecPart part = SpecPart::kRuntime;
  std::string allowed;
  // Reads a value that is not null into the spec.
  std::function<absl::Status(const Document&, const nlohmann::json&, JobSpec&)> read;
  // Null: as if absent.
  std::function<nlohmann::json(const JobSpec&)> write;
  // Why the field has no meaning for this job, as in "is for adam, adamw"; empty: it has one.
  std::function<std::string(const JobSpec&)> unused = [](const JobSpec&) { return std::string(); };
  bool default_fits_all = false;  // the default may be written where the field has no meaning
  std::string default_text = "";  // how the default is found, where it is no fixed value
  nlohmann::json schema = {};     // JSON Schema of what `read` takes
};

// In the order of docs/job-spec.md; a field is read after those that it depends on (the task before
// its parameters).
const std::vector<FieldRule>& FieldRules();

std::vector<std::string> TaskNames();

}  // namespace muster
