#include "worker/plugins/make_any_task.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "absl/strings/str_join.h"
#include "lib/base/exit_codes.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/status.h"
#include "lib/task/registry.h"
#include "lib/wire/task_parameters.h"
#include "worker/plugins/guarded_task.h"
#include "worker/plugins/operator_file.h"
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
  return LackOfPlugin(text);
}

absl::Status HasChanged(const std::string& what) {
  return absl::AbortedError(absl::StrCat(what, " changed while this worker prepared; start again"));
}

bool IsOfThisJob(const MadeTask& made, const Preparing& preparing) {
  return preparing.plugin.empty() || preparing.plugin == made.plugin;
}

absl::StatusOr<MadeTask> MakeOf(const PluginTask& plugin, const TrainingSpec& given, DataPart part,
                                const Preparing& preparing, std::shared_ptr<const SpoolMap> spool) {
  const TaskInfo& info = plugin.type.info;
  const absl::StatusOr<TrainingSpec> training = CompleteFor(info, given);
  if (!training.ok()) return absl::FailedPreconditionError(training.status().message());
  TaskOptions options{training->parameters, training->data, training->seed,
                      training->threads,    part,           training->validation.paths};
  options.sync_batch_norm = training->sync_batch_norm;
  options.spool = std::move(spool);
  if (!info.data_needed && options.data.samples == 0) options.data.samples = info.default_samples;
  const std::string file = std::filesystem::path(plugin.file).filename().string();
  MadeTask made{.plugin = absl::StrCat(file, " sha256:", plugin.hash),
                .parameters = info.parameters};
  if (plugin.has_changed || !IsOfThisJob(made, preparing))
    return HasChanged(absl::StrCat("plug-in ", plugin.file));
  preparing.enters(absl::StrCat("task ", info.name, " of plug-in ", plugin.file));
  absl::StatusOr<PreparedPtr> prepared = PrepareTask(plugin, options, preparing);
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("plug-in ", file), prepared.status()));
  made.prepared = *std::move(prepared);
  preparing.is_over();
  if (made.prepared != nullptr) options.prepared = made.prepared->files();
  const HashListener listener = ListenerOf(preparing);
  const HashListening listening(plugin.set_hash_listener, listener);
  auto task = MakeGuarded(
      info.name, options.data.on_bad_sample, [&] { return plugin.type.make(options); }, part);
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("plug-in ", file), task.status()));
  made.task = *std::move(task);
  return made;
}

// A file of weights becomes as much again in memory, and its gradient as well.
uint64_t MostBytesOfModelFile() { return static_cast<uint64_t>(MemoryForUs()) / 4; }

// One that is part of Muster.
absl::StatusOr<MadeTask> MakeOurs(const TaskInfo& info, const TrainingSpec& training, DataPart part,
                                  const std::vector<std::string>& folders,
                                  const Preparing& preparing,
                                  std::shared_ptr<const SpoolMap> spool) {
  const HashListener listener = ListenerOf(preparing);
  const HashListening listening(muster_set_hash_listener, listener);
  MadeTask made{.parameters = info.parameters};
  ModelFile file;
  std::string task_and_file = info.name;  // for people
  if (info.Parameter("file") != nullptr) {
    const auto named = training.parameters.find("file");
    const auto* name =
        named == training.parameters.end() ? nullptr : std::get_if<std::string>(&named->second);
    if (name == nullptr || name->empty())
      return absl::FailedPreconditionError(
          absl::StrCat("parameters.file: is missing; task ", info.name,
                       " needs the name of a file in a folder of --plugins"));
    absl::StatusOr<OperatorFile> found = FindOperatorFile(*name, folders, MostBytesOfModelFile());
    if (!found.ok()) {
      const std::string why = absl::StrCat("parameters.file: ", found.status().message());
      return absl::IsNotFound(found.status()) ? LackOfPlugin(why)
                                              : absl::FailedPreconditionError(why);
    }
    made.plugin = absl::StrCat(*name, " sha256:", found->hash);
    if (!IsOfThisJob(made, preparing)) return HasChanged(found->path);
    absl::StrAppend(&task_and_file, " with ", found->path);
    file = {found->path, std::move(found->bytes)};
  }
  preparing.enters(absl::StrCat("task ", task_and_file));
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Task>> {
    absl::StatusOr<std::unique_ptr<Task>> task = MakeTask(training, std::move(file), part, spool);
    if (task.ok()) made.remembers = dynamic_cast<Remembers*>(task->get());
    return task;
  };
  // What a job's model throws is the job's error.
  absl::StatusOr<std::unique_ptr<Task>> task =
      BringsItsModel(info.name)
          ? MakeGuarded(task_and_file, training.data.on_bad_sample, make, part)
          : make();
  MUSTER_RETURN_IF_ERROR(task.status());
  made.task = *std::move(task);
  return made;
}

// A task that needs its training data, whatever it is made for, is made with it.
DataPart PartFor(const TaskInfo& info, DataPart part) {
  return part == DataPart::kNone && !info.model_holds_all ? DataPart::kTraining : part;
}

// Whoever wants to generate need not know that data comes into it.
absl::StatusOr<MadeTask> WithItsNeed(const TaskInfo& info, DataPart wanted,
                                     absl::StatusOr<MadeTask> made) {
  const bool is_for_data =
      absl::IsInvalidArgument(made.status()) || absl::IsDataLoss(made.status());
  if (PartFor(info, wanted) == wanted || !is_for_data) return made;
  return Prefix(absl::StrCat("task ", info.name, " needs the data it was trained with also to ",
                             "generate, since its checkpoints do not hold all that it makes of ",
                             "it; name the data by --data"),
                made.status());
}

}  // namespace

absl::StatusOr<MadeTask> MakeAnyTask(const TrainingSpec& training, DataPart part,
                                     const std::vector<std::string>& plugin_folders,
                                     const Preparing& preparing,
                                     std::shared_ptr<const SpoolMap> spool) {
  if (const TaskInfo* info = FindTask(training.task); info != nullptr)
    return WithItsNeed(*info, part,
                       MakeOurs(*info, training, PartFor(*info, part), plugin_folders, preparing,
                                std::move(spool)));
  const absl::StatusOr<FoundPlugins> found = LoadPlugins(plugin_folders, preparing.enters);
  if (!found.ok()) return LackOfPlugin(found.status().message());
  for (const PluginTask& plugin : found->tasks)
    if (const TaskInfo& info = plugin.type.info; info.name == training.task)
      return WithItsNeed(
          info, part, MakeOf(plugin, training, PartFor(info, part), preparing, std::move(spool)));
  return NoSuchTask(training.task, plugin_folders, *found);
}

}  // namespace muster::worker
