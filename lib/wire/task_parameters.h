// The parameters of a task in a document, checked by what the task says of itself.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"
#include "muster/task_info.h"

namespace muster {

// As JSON: whole numbers without a point, up to where doubles hold each of them.
nlohmann::json FromNumber(double number);
nlohmann::json FromParameter(const ParameterValue& value);
// Likewise as people and programs are shown it: a structure as itself, where a specification that
// is kept has its text.
nlohmann::json ShownParameter(const ParameterValue& value, ParameterKind kind);

// The mapping `parameters`, into those that are there already. kInvalidArgument with the field's
// path and what is allowed.
absl::Status ReadParameters(const Document& document, const nlohmann::json& parameters,
                            const TaskInfo& task, ParameterValues& into);

// Likewise of a task that nobody here knows: values of any type, within bounds of their own.
absl::Status ReadUnknownParameters(const Document& document, const nlohmann::json& parameters,
                                   ParameterValues& into);

// Which fields go together: two parameters, the task and its data.
absl::Status CheckTask(const Document& document, const TaskInfo& task,
                       const TrainingSpec& training);

// With every parameter of the task, those that are missing by their defaults. kInvalidArgument,
// naming the field: what a task does not allow.
absl::StatusOr<TrainingSpec> CompleteFor(const TaskInfo& task, const TrainingSpec& training);

// JSON Schema of any parameters.
nlohmann::json ParametersSchema();

}  // namespace muster
