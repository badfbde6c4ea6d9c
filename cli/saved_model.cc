#include "cli/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster_folder.h"
#include "lib/base/status.h"
#include "lib/checkpoint/manifest_file.h"

namespace muster::cli {
namespace {

absl::StatusOr<std::string> FolderOf(const CheckpointArguments& checkpoint) {
  if (!checkpoint.checkpoints.empty()) return checkpoint.checkpoints;
  std::string job = checkpoint.job;
  if (job.empty()) {
    MUSTER_ASSIGN_OR_RETURN(job, OnlyJobIn(checkpoint.dir));
  }
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  return absl::StrCat(checkpoint.dir, "/checkpoints/", job);
}

// The newest, or that of the step; of several lineages the last one's.
absl::StatusOr<CheckpointPlace> Choose(const std::vector<CheckpointPlace>& places,
                                       const std::string& folder, std::optional<int64_t> step) {
  if (places.empty())
    return absl::NotFoundError(absl::StrCat(folder,
                                            " holds no checkpoint: name the folder of a "
                                            "run by --dir, or that of a job's checkpoints "
                                            "by --checkpoints"));
  const CheckpointPlace* chosen = nullptr;
  std::set<int64_t> steps;
  for (const CheckpointPlace& place : places) {
    steps.insert(place.second.value());
    if (step && place.second.value() != *step) continue;
    if (chosen == nullptr || *chosen < place) chosen = &place;
  }
  if (chosen != nullptr) return *chosen;
  return absl::NotFoundError(absl::StrCat(folder, " holds no checkpoint of step ", *step,
                                          "; there are those of ", absl::StrJoin(steps, ", ")));
}

absl::StatusOr<WorkerCommand> CommandOf(const char* name, const SavedModelArguments& model,
                                        const std::vector<std::string>& plugins) {
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(model));
  WorkerCommand command{{name, "--checkpoints", found.folder, "--manifest", found.manifest}, ""};
  const auto add = [&](const char* option, const std::string& value) {
    command.words.insert(command.words.end(), {option, value});
  };
  for (const std::string& setting : model.settings) add("--set", setting);
  for (const std::string& path : model.data)
    add("--data", std::filesystem::absolute(path).lexically_normal().string());
  for (const std::string& plugin : plugins) add("--plugins", plugin);
  if (model.json) command.words.push_back("--json");
  return command;
}

}  // namespace

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const CheckpointArguments& checkpoint) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, FolderOf(checkpoint));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CheckpointPlace> places,
                          CheckpointPlacesIn(*CheckpointFilesIn(folder)));
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place, Choose(places, folder, checkpoint.step));
  return FoundCheckpoint{folder, ManifestFileOf(place.first, place.second)};
}

absl::StatusOr<WorkerCommand> EvaluateCommand(const EvaluateArguments& evaluate,
                                              const std::vector<std::string>& plugins) {
  return CommandOf("evaluate", evaluate, plugins);
}

absl::StatusOr<WorkerCommand> GenerateCommand(const GenerateArguments& generate,
                                              const std::vector<std::string>& plugins) {
  MUSTER_ASSIGN_OR_RETURN(WorkerCommand command, CommandOf("generate", generate, plugins));
  command.words.insert(command.words.end(), {"--bytes", absl::StrCat(generate.bytes), "--seed",
                                             absl::StrCat(generate.seed)});
  if (!generate.prompt.empty()) command.words.push_back(absl::StrCat("--prompt=", generate.prompt));
  return command;
}

}  // namespace muster::cli
