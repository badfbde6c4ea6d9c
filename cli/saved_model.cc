#include "cli/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster_folder.h"
#include "lib/base/digits.h"
#include "lib/base/status.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/survey.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

std::optional<int64_t> StepIn(const std::string& which) {
  int64_t step = 0;
  return ParseDigits(which, &step) ? std::optional(step) : std::nullopt;
}

absl::StatusOr<WorkerCommand> CommandOf(const char* name, const SavedModelArguments& model,
                                        const std::vector<std::string>& plugins,
                                        const CheckpointFinder& find) {
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, find(model));
  WorkerCommand command = CommandWith(name, model, found);
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

// Of those in `places`, whose names are read where they matter. Errors of ChoosePlace.
absl::StatusOr<CheckpointPlace> FindPlace(const CheckpointFiles& files,
                                          const std::vector<CheckpointPlace>& places,
                                          const std::string& folder, const std::string& which) {
  const bool needs_names = !which.empty() && !StepIn(which);
  std::vector<NamedPlace> named;
  for (const CheckpointPlace& place : places)
    named.push_back(
        {place, needs_names ? ReadKeptName(files, place.first, place.second).value_or("") : ""});
  if (which == kBest) {
    const std::vector<SurveyedCheckpoint> all = SurveyCheckpoints(files, places);
    if (const std::optional<size_t> best = BestIn(all))
      named.push_back({{all[*best].lineage, all[*best].step}, "", /*is_best=*/true});
  }
  return ChoosePlace(named, folder, which);
}

}  // namespace

std::optional<size_t> BestIn(const std::vector<SurveyedCheckpoint>& all) {
  std::vector<std::optional<StateMeasure>> measures(all.size());
  BestRule rule;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].file) continue;
    const Manifest& manifest = all[i].file->manifest;
    const absl::StatusOr<JobSpec> spec = ParseStoredJob(manifest.spec, "");
    rule = spec.ok() ? BestRuleOf(*spec) : BestRule();
    if (all[i].is_complete() && IsFinite(manifest)) measures[i] = all[i].measure;
  }
  return BestOf(measures, rule);
}

absl::StatusOr<std::string> CheckpointFolderOf(const CheckpointArguments& checkpoint) {
  if (!checkpoint.checkpoints.empty()) return checkpoint.checkpoints;
  std::string job = checkpoint.job.substr(0, checkpoint.job.find('@'));
  if (job.empty()) {
    MUSTER_ASSIGN_OR_RETURN(job, OnlyJobIn(checkpoint.dir));
  }
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  return absl::StrCat(checkpoint.dir, "/checkpoints/", job);
}

absl::StatusOr<std::string> JobOfCluster(const CheckpointArguments& checkpoint) {
  std::string id = checkpoint.job.substr(0, checkpoint.job.find('@'));
  if (id.empty()) return absl::InvalidArgumentError("say which job, as in JOB --to HOST:PORT");
  MUSTER_RETURN_IF_ERROR(CheckJobId(id));
  return id;
}

std::string WhichOf(const CheckpointArguments& checkpoint) {
  const size_t at = checkpoint.job.find('@');
  return at == std::string::npos || !checkpoint.step.empty() ? checkpoint.step
                                                             : checkpoint.job.substr(at + 1);
}

absl::StatusOr<CheckpointPlace> ChoosePlace(const std::vector<NamedPlace>& places,
                                            const std::string& folder, const std::string& which) {
  if (places.empty())
    return absl::NotFoundError(absl::StrCat(folder,
                                            " holds no checkpoint: name the folder of a "
                                            "run by --dir, or that of a job's checkpoints "
                                            "by --checkpoints"));
  const std::optional<int64_t> step = StepIn(which);
  const CheckpointPlace* chosen = nullptr;
  std::set<int64_t> steps;
  std::set<std::string> names;
  const CheckpointPlace* best = nullptr;
  for (const NamedPlace& one : places) {
    const CheckpointPlace& place = one.place;
    steps.insert(place.second.value());
    if (!one.name.empty()) names.insert(one.name);
    if (one.is_best) best = &place;
    const bool is_meant = step ? place.second.value() == *step : which.empty() || one.name == which;
    if (!is_meant) continue;
    if (chosen == nullptr || *chosen < place) chosen = &place;
  }
  if (chosen == nullptr && which == kBest) chosen = best;
  if (chosen != nullptr) return *chosen;
  if (which == kBest)
    return absl::NotFoundError(absl::StrCat(
        folder,
        " holds no checkpoint that was measured; checkpoint.keep: {best: validation.loss} "
        "of a job keeps the best one"));
  if (step)
    return absl::NotFoundError(absl::StrCat(folder, " holds no checkpoint of step ", *step,
                                            "; there are those of ", absl::StrJoin(steps, ", ")));
  return absl::NotFoundError(absl::StrCat(
      folder, " holds no checkpoint that is kept as '", which, "'; ",
      names.empty() ? "none has a name" : absl::StrCat("there are ", absl::StrJoin(names, ", "))));
}

std::vector<NamedPlace> PlacesOf(const std::vector<SavedCheckpointAnswer>& all) {
  std::vector<NamedPlace> places;
  for (const SavedCheckpointAnswer& one : all)
    places.push_back({{LineageNumber(one.lineage), Step(one.step)}, one.name, one.best});
  return places;
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const CheckpointArguments& checkpoint) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, CheckpointFolderOf(checkpoint));
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(folder);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CheckpointPlace> places, CheckpointPlacesIn(*files));
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place,
                          FindPlace(*files, places, folder, WhichOf(checkpoint)));
  return FoundCheckpoint{folder, ManifestFileOf(place.first, place.second)};
}

absl::StatusOr<FoundCheckpoint> FindInCluster(const CheckpointArguments& checkpoint,
                                              const RestClient& rest,
                                              ClusterFilesPatience patience) {
  MUSTER_ASSIGN_OR_RETURN(const std::string id, JobOfCluster(checkpoint));
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Job(id));
  // The newest one that the job would go back to by itself; else of all that are committed.
  std::vector<NamedPlace> places;
  for (const CheckpointAnswer& saved : job.saved)
    places.push_back({{LineageNumber(saved.lineage), Step(saved.step)}, ""});
  if (!WhichOf(checkpoint).empty()) {
    MUSTER_ASSIGN_OR_RETURN(const auto saved, rest.Checkpoints(id));
    places = PlacesOf(saved);
  }
  if (places.empty())
    return absl::NotFoundError(
        absl::StrCat("job ", id, " has no checkpoint", IsOver(job) ? "" : " yet"));
  const std::string folder = absl::StrCat("job ", id);
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place,
                          ChoosePlace(places, folder, WhichOf(checkpoint)));
  return FoundCheckpoint{folder, ManifestFileOf(place.first, place.second),
                         FilesOfCheckpoint(rest, id, place, patience)};
}

WorkerCommand CommandWith(const char* name, const AnyCheckpointArguments& checkpoint,
                          const FoundCheckpoint& found) {
  WorkerCommand command{
      .words = {name, "--checkpoints", found.folder, "--manifest", found.manifest},
      .input = "",
      .files = found.files};
  if (checkpoint.average) command.words.push_back("--average");
  return command;
}

absl::StatusOr<WorkerCommand> EvaluateCommand(const EvaluateArguments& evaluate,
                                              const std::vector<std::string>& plugins,
                                              const CheckpointFinder& find) {
  return CommandOf("evaluate", evaluate, plugins, find);
}

absl::StatusOr<WorkerCommand> GenerateCommand(const GenerateArguments& generate,
                                              const std::vector<std::string>& plugins,
                                              const CheckpointFinder& find) {
  MUSTER_ASSIGN_OR_RETURN(WorkerCommand command, CommandOf("generate", generate, plugins, find));
  command.words.insert(command.words.end(), {"--bytes", absl::StrCat(generate.bytes), "--seed",
                                             absl::StrCat(generate.seed)});
  if (!generate.prompt.empty()) command.words.push_back(absl::StrCat("--prompt=", generate.prompt));
  return command;
}

}  // namespace muster::cli
