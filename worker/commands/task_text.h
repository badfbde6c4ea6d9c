// What tasks there are, as people and as programs read it. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "muster/task_info.h"
#include "worker/tasks/layer_list.h"

namespace muster::worker {

struct ListedTask {
  TaskInfo info;
  std::string plugin;               // the file that brings it; empty: it is part of Muster
  std::vector<LayerHelp> layers{};  // that its parameter of that name is made of
};

// A line for each.
std::string TasksAsText(const std::vector<ListedTask>& tasks);
// One with its parameters.
std::string TaskAsText(const ListedTask& task);
std::string TasksAsJson(const std::vector<ListedTask>& tasks);  // {"tasks": [...]}

}  // namespace muster::worker
