#include "cli/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/checkpoint_report.h"
#include "cli/cluster_folder.h"
#include "cli/json_text.h"
#include "cli/saved_model.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/survey.h"

namespace muster::cli {
namespace {

using nlohmann::ordered_json;
using Verb = CheckpointsArguments::Verb;

// A job's checkpoints, and where they lie.
struct Folder {
  std::string path;
  std::unique_ptr<CheckpointFiles> files;
  std::vector<SurveyedCheckpoint> all;
  std::optional<size_t> best;  // of them; nothing: the job keeps none for that, or nobody knows
};

absl::StatusOr<Folder> Open(const CheckpointArguments& arguments) {
  Folder folder;
  MUSTER_ASSIGN_OR_RETURN(folder.path, CheckpointFolderOf(arguments));
  folder.files = CheckpointFilesIn(folder.path);
  MUSTER_ASSIGN_OR_RETURN(folder.all, SurveyCheckpoints(*folder.files));
  folder.best = BestIn(folder.all).value_or(std::nullopt);
  return folder;
}

bool IsBest(const Folder& folder, const SurveyedCheckpoint& one) {
  return folder.best && &folder.all[*folder.best] == &one;
}

CheckpointRow RowOf(const Folder& folder, const SurveyedCheckpoint& one) {
  return cli::RowOf(one, IsBest(folder, one));
}

// The newest of all that are whole; nullptr: there is none.
const SurveyedCheckpoint* NewestComplete(const Folder& folder) {
  const auto newest = std::find_if(folder.all.rbegin(), folder.all.rend(),
                                   [](const SurveyedCheckpoint& one) { return one.is_complete(); });
  return newest == folder.all.rend() ? nullptr : &*newest;
}

absl::StatusOr<const SurveyedCheckpoint*> Find(const Folder& folder,
                                               const CheckpointArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const ChosenCheckpoint chosen,
                          ChooseOf(folder.all, folder.path, WhichOf(arguments)));
  TellNote(chosen.note);
  return &folder.all[chosen.index];
}

void List(const Folder& folder, bool as_json, std::ostream& out) {
  std::vector<CheckpointRow> rows;
  for (const SurveyedCheckpoint& one : folder.all) rows.push_back(RowOf(folder, one));
  if (!as_json) return ListAsText(folder.path, rows, out);
  ordered_json list = ordered_json::array();
  for (const CheckpointRow& row : rows) list.push_back(AsJson(row));
  out << Text(ordered_json{{"folder", folder.path}, {"checkpoints", list}}) << "\n";
}

absl::Status Verify(const Folder& folder, const std::vector<const SurveyedCheckpoint*>& chosen,
                    bool as_json, std::ostream& out) {
  std::vector<CheckpointToVerify> all;
  for (const SurveyedCheckpoint* one : chosen)
    all.push_back({one->step.value(), one->lineage.value(), one->bytes,
                   [&folder, one] { return VerifyOne(*folder.files, *one); }});
  return VerifyEach(all, as_json, out);
}

absl::Status MayGo(const Folder& folder, const SurveyedCheckpoint& one) {
  const SurveyedCheckpoint* const newest = NewestComplete(folder);
  if (newest == &one)
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint of step ", one.step.value(),
        " is the newest that is complete, from which the job would go on; --force deletes it all "
        "the same"));
  if (!one.name_read.ok())
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint of step ", one.step.value(), " is kept by a name that cannot be read: ",
        one.name_read.message(), "; --force deletes it all the same"));
  if (one.name.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the checkpoint of step ", one.step.value(),
                                                    " is kept as '", one.name,
                                                    "'; --force deletes it all the same"));
}

// The folder of all jobs' checkpoints that this one lies in, whatever links led there.
absl::StatusOr<std::string> RootAround(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder, error);
  if (!error) return real.parent_path().string();
  return ReadError(error.value(), "find", folder);
}

absl::Status Delete(const CheckpointsArguments& arguments, const Folder& folder,
                    const SurveyedCheckpoint& one, const ForgetCheckpoint& forget,
                    const HoldRoot& hold, std::ostream& out) {
  if (!arguments.force) MUSTER_RETURN_IF_ERROR(MayGo(folder, one));
  Descriptor held;
  if (arguments.checkpoints.empty()) {
    if (IsInUse(arguments.dir))
      return absl::FailedPreconditionError(
          absl::StrCat("something runs in ", arguments.dir,
                       ", which counts on its checkpoints; end it first, or let checkpoint.keep "
                       "of the job remove what is old"));
    const std::string job = folder.path.substr(folder.path.rfind('/') + 1);
    MUSTER_RETURN_IF_ERROR(forget(arguments.dir, job, one.lineage, one.step));
  } else {
    MUSTER_ASSIGN_OR_RETURN(const std::string root, RootAround(folder.path));
    MUSTER_ASSIGN_OR_RETURN(held, hold(root));
  }
  MUSTER_RETURN_IF_ERROR(DeleteCheckpoint(*folder.files, one.lineage, one.step));
  TellDeleted(arguments.json, RowOf(folder, one), out);
  return absl::OkStatus();
}

absl::Status CheckIsFree(const Folder& folder, const SurveyedCheckpoint& one,
                         const std::string& name) {
  for (const SurveyedCheckpoint& other : folder.all)
    if (&other != &one && other.name == name)
      return absl::AlreadyExistsError(absl::StrCat("the checkpoint of step ", other.step.value(),
                                                   " is kept as '", name, "'; take another name"));
  return absl::OkStatus();
}

absl::Status Keep(const CheckpointsArguments& arguments, const Folder& folder,
                  const SurveyedCheckpoint& one, std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(CheckKeepsOrReleases(arguments));
  CheckpointFiles& files = *folder.files;
  if (arguments.release) {
    MUSTER_RETURN_IF_ERROR(files.Remove(KeptFileOf(one.lineage, one.step)));
  } else {
    if (!one.is_complete()) return NotComplete(one);
    MUSTER_RETURN_IF_ERROR(CheckIsFree(folder, one, arguments.name));
    MUSTER_RETURN_IF_ERROR(KeepCheckpoint(files, one.lineage, one.step, arguments.name));
  }
  ordered_json now = AsJson(RowOf(folder, one));
  now["name"] = arguments.release ? ordered_json() : ordered_json(arguments.name);
  TellChange(arguments.json, now, KeptText(arguments, one.step.value()), out);
  return absl::OkStatus();
}

}  // namespace

absl::Status Checkpoints(const CheckpointsArguments& arguments, const ForgetCheckpoint& forget,
                         const HoldRoot& hold, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const Folder folder, Open(arguments));
  if (arguments.verb == Verb::kList) {
    List(folder, arguments.json, out);
    return absl::OkStatus();
  }
  const bool is_of_all = arguments.verb == Verb::kVerify && WhichOf(arguments).empty();
  if (is_of_all && !folder.all.empty()) {
    std::vector<const SurveyedCheckpoint*> all;
    for (const SurveyedCheckpoint& one : folder.all) all.push_back(&one);
    return Verify(folder, all, arguments.json, out);
  }
  if (arguments.verb == Verb::kDelete) MUSTER_RETURN_IF_ERROR(CheckSaysWhich(arguments));
  MUSTER_ASSIGN_OR_RETURN(const SurveyedCheckpoint* one, Find(folder, arguments));
  switch (arguments.verb) {
    case Verb::kShow: return ShowCheckpoint(*one, IsBest(folder, *one), arguments.json, out);
    case Verb::kDelete: return Delete(arguments, folder, *one, forget, hold, out);
    case Verb::kKeep: return Keep(arguments, folder, *one, out);
    default: return Verify(folder, {one}, arguments.json, out);
  }
}

}  // namespace muster::cli
