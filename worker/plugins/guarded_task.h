// A task of a plug-in, held to its contract (muster/task.h): what it throws becomes an error, and
// what it tells twice, too late or wrongly ends the job with a sentence, before it can do harm.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "muster/task.h"
#include "muster/task_options.h"

namespace muster::worker {

// kFailedPrecondition: `make` throws or brings nothing, or the task tells of itself what cannot be.
// `name` is what errors call it. The result has the abilities of the task. `on_bad_sample`: whether
// its lanes may leave out samples. Of DataPart::kNone it is not asked for samples and their hash.
absl::StatusOr<std::unique_ptr<Task>> MakeGuarded(
    const std::string& name, OnBadSample on_bad_sample,
    const std::function<absl::StatusOr<std::unique_ptr<Task>>()>& make,
    DataPart part = DataPart::kTraining);

// Likewise of what it does before it is made (TaskType::prepare). kResourceExhausted: there is no
// memory or disk for it.
absl::Status PrepareGuarded(const std::string& name, const std::function<absl::Status()>& prepare);

}  // namespace muster::worker
