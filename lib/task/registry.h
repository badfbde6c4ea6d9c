// The explicit table of tasks that are part of Muster, with their parameters. Pure data, so that
// whoever checks a specification needs no LibTorch; the workers' own table makes the tasks
// themselves (worker/tasks). A task of another name is one of a plug-in, which workers know alone.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "muster/task_info.h"

namespace muster {

const std::vector<TaskInfo>& Tasks();              // in name order
const TaskInfo* FindTask(absl::string_view name);  // nullptr: it is no part of Muster

// Its model comes from the job or from a file of the operator, and is trusted no more than a
// plug-in.
bool BringsItsModel(absl::string_view task);

}  // namespace muster
