// A task whose model is a TorchScript file: a module from the inputs of a sample to an output,
// which a loss by name compares with the label.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "muster/task.h"
#include "muster/task_options.h"

namespace muster::worker {

// `name` is what errors call the file, `bytes` its content. Throws TaskError: kFailedPrecondition
// with one sentence where the file is none, or where module, data and loss do not fit; others as of
// OpenDataSet.
std::unique_ptr<Task> MakeTorchScript(const TaskOptions& options, std::string name,
                                      std::string bytes);

}  // namespace muster::worker
