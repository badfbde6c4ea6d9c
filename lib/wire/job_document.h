// A job specification as a document, the form that YAML, JSON and protobuf share: for lib/wire, and
// for who holds a larger document of which the specification is a part.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"
#include "muster/task_info.h"

namespace muster {

absl::StatusOr<JobSpec> FromDocument(const Document& document);
nlohmann::json ToDocument(const JobSpec& spec);
// Likewise as programs are shown it: of the parameters that its task declares, those that are
// structures stand as such in place of their texts. FromDocument reads both alike.
nlohmann::json ShownDocument(const JobSpec& spec, const std::vector<TaskParameter>& declared);
// Of a task that is part of Muster; nobody knows here what another one declares.
nlohmann::json ShownDocument(const JobSpec& spec);

// The value of the field `workers` alone, into a spec that has none yet. "workers: 3" is one to
// three.
absl::Status ReadWorkers(const Document& document, const nlohmann::json& value, JobSpec& spec);

// JSON Schema of such a document, and of what ParseQueueChange takes, made of the table that reads
// them. It says of each field what is allowed; which fields go together it does not say.
nlohmann::json SpecSchema();
nlohmann::json QueueChangeSchema();

}  // namespace muster
