#include "worker/plugins/make_any_task.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_join.h"
#include "lib/base/status.h"
#include "lib/task/registry.h"
#include "lib/wire/task_parameters.h"
#include "worker/plugins/guarded_task.h"
#include "worker/plugins/plugin_folder.h"
#include "worker/tasks/make_task.h"

namespace muster::worker {
namespace {

absl::Status NoSuchTask(const std::string& name, const std::vector<std::string>& folders,
                        const FoundPlugins& found) {
  std::vector<std::string> names;
  for (const TaskInfo& task : Tasks()) names.push_back(task.name);
  for (const PluginTask& task : found.tasks) names.push_back(task.type.info.name);
  std::string text =
      absl::StrCat("task: '", name, "' is unknown; there are ", absl::StrJoin(names, ", "));
  if (folders.empty())
    absl::StrAppend(&text, ", and this host has no folder of plug-ins (--plugins)");
  else if (found.refused.empty())
    absl::StrAppend(&text, ", and no plug-in in ", absl::StrJoin(folders, ", "), " brings it");
  else
    absl::StrAppend(&text, "; of the plug-ins, ", absl::StrJoin(found.refused, "; "));
  return absl::FailedPreconditionError(text);
}

absl::StatusOr<MadeTask> MakeOf(const PluginTask& plugin, const TrainingSpec& given,
                                DataPart part) {
  const TaskInfo& info = plugin.type.info;
  const absl::StatusOr<TrainingSpec> training = CompleteFor(info, given);
  if (!training.ok()) return absl::FailedPreconditionError(training.status().message());
  TaskOptions options{training->parameters, training->data, training->seed,
                      training->threads,    part,           training->validation.paths};
  if (!info.data_needed && options.data.samples == 0) options.data.samples = info.default_samples;
  const std::string file = std::filesystem::path(plugin.file).filename().string();
  MadeTask made{.plugin = absl::StrCat(file, " sha256:", plugin.hash)};
  auto task = MakeGuarded(info.name, [&] { return plugin.type.make(options); });
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("plug-in ", file), task.status()));
  made.task = *std::move(task);
  return made;
}

}  // namespace

absl::StatusOr<MadeTask> MakeAnyTask(const TrainingSpec& training, DataPart part,
                                     const std::vector<std::string>& plugin_folders,
                                     CopyCounter& copied) {
  MadeTask made;
  if (FindTask(training.task) != nullptr) {
    TrainingSpec read = training;
    if (part == DataPart::kValidation) read.data.paths = training.validation.paths;
    MUSTER_ASSIGN_OR_RETURN(made.task, MakeTask(read, copied));
    return made;
  }
  const absl::StatusOr<FoundPlugins> found = LoadPlugins(plugin_folders);
  if (!found.ok()) return absl::FailedPreconditionError(found.status().message());
  for (const PluginTask& plugin : found->tasks)
    if (plugin.type.info.name == training.task) return MakeOf(plugin, training, part);
  return NoSuchTask(training.task, plugin_folders, *found);
}

}  // namespace muster::worker
