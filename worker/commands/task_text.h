// What tasks there are, as people and as programs read it. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "muster/task_info.h"

namespace muster::worker {

struct ListedTask {
  TaskInfo info;
  std::string plugin;  // the file that brings it; empty: it is part of Muster
};

// A line for each.
std::string TasksAsText(const std::vector<ListedTask>& tasks);
// One with its parameters.
std::string TaskAsText(const ListedTask& task);
std::string TasksAsJson(const std::vector<ListedTask>& tasks);  // {"tasks": [...]}

}  // namespace muster::worker
