#include "cli/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/checkpoint_report.h"
#include "cli/cluster_folder.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/survey.h"
#include "lib/domain/labels.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

// The worker gets it as a word of its command, which systems bound.
constexpr size_t kMostPromptBytes = 64 << 10;

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

int64_t StepOf(const SurveyedCheckpoint& one) { return one.step.value(); }
int64_t StepOf(const SavedCheckpointAnswer& one) { return one.step; }

// "the checkpoint of step 20 is taken; a newer one …", of the newest of those that are passed over.
std::string PassedOver(int64_t taken, int64_t newest, const std::string& why, size_t passed) {
  return absl::StrCat("the checkpoint of step ", taken, " is taken; that of step ", newest,
                      " is newer and passed over: ", Printable(why),
                      passed > 1 ? absl::StrCat(" (and ", passed - 1, " more)") : "");
}

absl::Status NobodyKnows(const std::string& which, const absl::Status& why) {
  return absl::Status(
      why.code(), absl::StrCat("nobody knows which checkpoint is '", which, "': ", why.message()));
}

// Whether another one than it seems may be meant by this word, which is no step.
absl::Status CheckIsKnown(const std::vector<SurveyedCheckpoint>& all, const std::string& which,
                          const absl::Status& best) {
  for (const SurveyedCheckpoint& one : all)
    if (one.name == which) return absl::OkStatus();
  for (const SurveyedCheckpoint& one : all)
    if (!one.name_read.ok()) return NobodyKnows(which, one.name_read);
  return which == kBest && !best.ok() ? NobodyKnows(which, best) : absl::OkStatus();
}

absl::Status CheckNamesFolder(const std::string& checkpoints) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(checkpoints, error);
  const bool is_below_a_file = error == std::errc::not_a_directory;
  const bool may_be = !std::filesystem::exists(there) || std::filesystem::is_directory(there);
  if (may_be && !is_below_a_file) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--checkpoints: '", Printable(checkpoints),
                   "' is no folder; name the job's own folder of checkpoints"));
}

// "JOB@" would be the newest, and what is neither a step nor a name can be none.
absl::Status CheckWhich(const CheckpointArguments& checkpoint) {
  const size_t at = checkpoint.job.find('@');
  if (at == std::string::npos) return absl::OkStatus();
  const std::string which = checkpoint.job.substr(at + 1);
  if (StepIn(which) || IsKeptName(which)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", Cut(Printable(checkpoint.job)),
                   "': after the @ stands a step, as in count-1@400, the name of a checkpoint that "
                   "is kept, or best; for the newest name the job alone"));
}

bool IsWhole(const SavedCheckpointAnswer& one) { return one.complete && !one.deleting; }
bool GoesOnFrom(const SavedCheckpointAnswer& one) { return IsWhole(one) && !one.left_out; }

std::string WhyPassedOver(const SavedCheckpointAnswer& one) {
  if (one.left_out && IsWhole(one)) return "the job has gone back behind it and left it out";
  if (one.deleting) return "it is being deleted";
  return one.why.empty() ? "its files are not all there" : one.why;
}

std::vector<NamedPlace> PlacesOf(const std::vector<SavedCheckpointAnswer>& all) {
  std::vector<NamedPlace> places;
  for (const SavedCheckpointAnswer& one : all)
    places.push_back({{LineageNumber(one.lineage), Step(one.step)}, one.name, one.best});
  return places;
}

// The newest of those that will do. `why`: a newer one will not.
template <typename Checkpoint, typename WillDo, typename Why>
std::optional<ChosenCheckpoint> NewestOf(const std::vector<Checkpoint>& all, const WillDo& will_do,
                                         const Why& why) {
  const auto found = std::find_if(all.rbegin(), all.rend(), will_do);
  if (found == all.rend()) return std::nullopt;
  const auto passed = static_cast<size_t>(found - all.rbegin());
  ChosenCheckpoint chosen{all.size() - passed - 1};
  if (passed > 0)
    chosen.note = PassedOver(StepOf(*found), StepOf(all.back()), why(all.back()), passed);
  return chosen;
}

// Errors of ChoosePlace.
absl::StatusOr<ChosenCheckpoint> ChooseNamed(const std::vector<NamedPlace>& places,
                                             const std::string& folder, const std::string& which) {
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place, ChoosePlace(places, folder, which));
  const auto found = std::find_if(places.begin(), places.end(),
                                  [&](const NamedPlace& one) { return one.place == place; });
  return ChosenCheckpoint{static_cast<size_t>(found - places.begin())};
}

}  // namespace

absl::StatusOr<std::optional<size_t>> BestIn(const std::vector<SurveyedCheckpoint>& all) {
  std::vector<std::optional<StateMeasure>> measures(all.size());
  BestRule rule;
  absl::Status unread;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].file) continue;
    const Manifest& manifest = all[i].file->manifest;
    const absl::StatusOr<JobSpec> spec = ParseStoredJob(manifest.spec, "");
    rule = spec.ok() ? BestRuleOf(*spec) : BestRule();
    if (!all[i].is_complete() || !IsFinite(manifest)) continue;
    measures[i] = all[i].measure;
    unread.Update(all[i].measure_read);
  }
  if (rule.wanted() && !unread.ok()) return unread;
  return BestOf(measures, rule);
}

absl::StatusOr<ChosenCheckpoint> ChooseOf(const std::vector<SurveyedCheckpoint>& all,
                                          const std::string& folder, const std::string& which) {
  if (which.empty()) {
    std::optional<ChosenCheckpoint> newest =
        NewestOf(all, std::mem_fn(&SurveyedCheckpoint::is_complete),
                 std::mem_fn(&SurveyedCheckpoint::why_not));
    if (newest) return *std::move(newest);
  }
  const absl::StatusOr<std::optional<size_t>> best = BestIn(all);
  if (!which.empty() && !StepIn(which))
    MUSTER_RETURN_IF_ERROR(CheckIsKnown(all, which, best.status()));
  std::vector<NamedPlace> places;
  for (size_t i = 0; i < all.size(); ++i)
    places.push_back({{all[i].lineage, all[i].step}, all[i].name, best.ok() && *best == i});
  return ChooseNamed(places, folder, which);
}

absl::StatusOr<ChosenCheckpoint> ChooseOf(const std::vector<SavedCheckpointAnswer>& all,
                                          const std::string& folder, const std::string& which) {
  if (which.empty()) {
    std::optional<ChosenCheckpoint> newest = NewestOf(all, GoesOnFrom, WhyPassedOver);
    if (!newest) newest = NewestOf(all, IsWhole, WhyPassedOver);
    if (newest) return *std::move(newest);
  }
  return ChooseNamed(PlacesOf(all), folder, which);
}

absl::StatusOr<std::string> CheckpointFolderOf(const CheckpointArguments& checkpoint) {
  if (!checkpoint.checkpoints.empty()) {
    MUSTER_RETURN_IF_ERROR(CheckNamesFolder(checkpoint.checkpoints));
    return checkpoint.checkpoints;
  }
  MUSTER_RETURN_IF_ERROR(CheckIsFolder(checkpoint.dir));
  MUSTER_RETURN_IF_ERROR(CheckWhich(checkpoint));
  std::string job = checkpoint.job.substr(0, checkpoint.job.find('@'));
  if (job.empty()) {
    MUSTER_ASSIGN_OR_RETURN(job, OnlyJobIn(checkpoint.dir));
  }
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  return CheckpointsIn(checkpoint.dir, job);
}

absl::StatusOr<std::string> JobOfCluster(const CheckpointArguments& checkpoint) {
  MUSTER_RETURN_IF_ERROR(CheckWhich(checkpoint));
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
        "of a job keeps the best one, and muster checkpoints verify says whether a measure is "
        "damaged"));
  if (step)
    return absl::NotFoundError(absl::StrCat(folder, " holds no checkpoint of step ", *step,
                                            "; there are those of ", absl::StrJoin(steps, ", ")));
  return absl::NotFoundError(absl::StrCat(
      folder, " holds no checkpoint that is kept as '", which, "'; ",
      names.empty() ? "none has a name" : absl::StrCat("there are ", absl::StrJoin(names, ", "))));
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const CheckpointArguments& checkpoint) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, CheckpointFolderOf(checkpoint));
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(folder);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<SurveyedCheckpoint> all, SurveyCheckpoints(*files));
  MUSTER_ASSIGN_OR_RETURN(const ChosenCheckpoint chosen,
                          ChooseOf(all, folder, WhichOf(checkpoint)));
  const SurveyedCheckpoint& one = all[chosen.index];
  if (!one.is_complete()) return NotComplete(one);
  return FoundCheckpoint{
      .folder = folder, .manifest = ManifestFileOf(one.lineage, one.step), .note = chosen.note};
}

absl::StatusOr<FoundCheckpoint> FindInCluster(const CheckpointArguments& checkpoint,
                                              const RestClient& rest,
                                              ClusterFilesPatience patience) {
  MUSTER_ASSIGN_OR_RETURN(const std::string id, JobOfCluster(checkpoint));
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Job(id));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<SavedCheckpointAnswer> all, rest.Checkpoints(id));
  if (all.empty())
    return absl::NotFoundError(
        absl::StrCat("job ", id, " has no checkpoint", IsOver(job) ? "" : " yet"));
  const std::string folder = absl::StrCat("job ", id);
  MUSTER_ASSIGN_OR_RETURN(const ChosenCheckpoint chosen,
                          ChooseOf(all, folder, WhichOf(checkpoint)));
  const SavedCheckpointAnswer& one = all[chosen.index];
  const CheckpointPlace place(LineageNumber(one.lineage), Step(one.step));
  return FoundCheckpoint{folder, ManifestFileOf(place.first, place.second),
                         FilesOfCheckpoint(rest, id, place, patience), chosen.note};
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
  if (generate.prompt.size() > kMostPromptBytes)
    return absl::InvalidArgumentError(absl::StrCat("--prompt: has ", generate.prompt.size(),
                                                   " bytes; allowed: at most ", kMostPromptBytes));
  MUSTER_ASSIGN_OR_RETURN(WorkerCommand command, CommandOf("generate", generate, plugins, find));
  command.words.insert(command.words.end(), {"--bytes", absl::StrCat(generate.bytes), "--seed",
                                             absl::StrCat(generate.seed)});
  if (!generate.prompt.empty()) command.words.push_back(absl::StrCat("--prompt=", generate.prompt));
  return command;
}

}  // namespace muster::cli
