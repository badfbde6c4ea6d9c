#include "cli/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/cluster_folder.h"
#include "cli/json_text.h"
#include "cli/saved_model.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/survey.h"
#include "lib/domain/tensor_type.h"
#include "lib/launch/progress_line.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

using nlohmann::ordered_json;
using Verb = CheckpointsArguments::Verb;

// A job's checkpoints, and where they lie.
struct Folder {
  std::string path;
  std::unique_ptr<CheckpointFiles> files;
  std::vector<SurveyedCheckpoint> all;
  std::optional<size_t> best;  // of them; nothing: the job keeps none for that
};

absl::StatusOr<Folder> Open(const CheckpointArguments& arguments) {
  Folder folder;
  MUSTER_ASSIGN_OR_RETURN(folder.path, CheckpointFolderOf(arguments));
  folder.files = CheckpointFilesIn(folder.path);
  MUSTER_ASSIGN_OR_RETURN(folder.all, SurveyCheckpoints(*folder.files));
  folder.best = BestIn(folder.all);
  return folder;
}

bool IsBest(const Folder& folder, const SurveyedCheckpoint& one) {
  return folder.best && &folder.all[*folder.best] == &one;
}

// The newest of all that are whole; nullptr: there is none.
const SurveyedCheckpoint* NewestComplete(const Folder& folder) {
  const auto newest = std::find_if(folder.all.rbegin(), folder.all.rend(),
                                   [](const SurveyedCheckpoint& one) { return one.is_complete(); });
  return newest == folder.all.rend() ? nullptr : &*newest;
}

// The one that is meant, whole or not: of its step the last lineage's. Where none is named, the
// newest that is whole: a job that runs is writing the one after it.
absl::StatusOr<const SurveyedCheckpoint*> Find(const Folder& folder,
                                               const CheckpointArguments& arguments) {
  if (WhichOf(arguments).empty())
    if (const SurveyedCheckpoint* newest = NewestComplete(folder)) return newest;
  std::vector<NamedPlace> places;
  for (const SurveyedCheckpoint& one : folder.all)
    places.push_back({{one.lineage, one.step}, one.name, IsBest(folder, one)});
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place,
                          ChoosePlace(places, folder.path, WhichOf(arguments)));
  return &*std::find_if(folder.all.begin(), folder.all.end(), [&](const SurveyedCheckpoint& one) {
    return CheckpointPlace(one.lineage, one.step) == place;
  });
}

// Counted from 0; nothing: nobody knows how many steps an epoch has.
std::optional<int64_t> EpochOf(const SurveyedCheckpoint& one) {
  if (!one.file || !IsSampleCount(one.file->environment.samples)) return std::nullopt;
  const absl::StatusOr<JobSpec> spec = ParseStoredJob(one.file->manifest.spec, "");
  if (!spec.ok()) return std::nullopt;
  return one.step.value() / StepsPerEpoch(spec->training, one.file->environment.samples);
}

std::string When(const SurveyedCheckpoint& one) {
  if (!one.file) return "";
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                          absl::FromUnixSeconds(one.file->manifest.unix_seconds),
                          absl::UTCTimeZone());
}

std::string StateOf(const SurveyedCheckpoint& one) {
  if (!one.is_complete()) return "incomplete";
  return IsFinite(one.file->manifest) ? "complete" : "not finite";
}

// "0.693147", and of the best one "0.693147 best".
std::string MeasureText(const Folder& folder, const SurveyedCheckpoint& one) {
  if (!one.measure) return "";
  return absl::StrFormat("%.6g%s", one.measure->value, IsBest(folder, one) ? " best" : "");
}

ordered_json AsJson(const Folder& folder, const SurveyedCheckpoint& one) {
  ordered_json json = {{"step", one.step.value()}, {"lineage", one.lineage.value()},
                       {"epoch", nullptr},         {"bytes", one.bytes},
                       {"time", nullptr},          {"complete", one.is_complete()},
                       {"name", nullptr}};
  if (const auto epoch = EpochOf(one)) json["epoch"] = *epoch;
  if (one.file) json["time"] = When(one);
  if (one.is_complete()) json["finite"] = IsFinite(one.file->manifest);
  if (!one.is_complete()) json["why"] = Printable(one.why_not);
  if (!one.name.empty()) json["name"] = one.name;
  if (one.measure) {
    json["measures"] = {{one.measure->measure, one.measure->value}};
    json["best"] = IsBest(folder, one);
  }
  return json;
}

absl::Status List(const Folder& folder, bool as_json, std::ostream& out) {
  if (as_json) {
    ordered_json list = ordered_json::array();
    for (const SurveyedCheckpoint& one : folder.all) list.push_back(AsJson(folder, one));
    out << Text(ordered_json{{"folder", folder.path}, {"checkpoints", list}}) << "\n";
    return absl::OkStatus();
  }
  if (folder.all.empty()) {
    out << Printable(folder.path) << " holds no checkpoint\n";
    return absl::OkStatus();
  }
  // No column of what no checkpoint has.
  const bool is_any_measured =
      std::any_of(folder.all.begin(), folder.all.end(),
                  [](const SurveyedCheckpoint& one) { return one.measure.has_value(); });
  const auto measure = [&](const std::string& text) {
    return is_any_measured ? absl::StrFormat("%-17s  ", text) : "";
  };
  out << absl::StrFormat("%10s  %7s  %5s  %9s  %-20s  %-10s  %s%s\n", "step", "lineage", "epoch",
                         "bytes", "when", "state", measure("measure"), "name");
  for (const SurveyedCheckpoint& one : folder.all) {
    const auto epoch = EpochOf(one);
    out << absl::StrFormat("%10d  %7d  %5s  %9s  %-20s  %-10s  %s%s\n", one.step.value(),
                           one.lineage.value(), epoch ? absl::StrCat(*epoch) : "?",
                           Bytes(static_cast<double>(one.bytes)), When(one), StateOf(one),
                           measure(MeasureText(folder, one)), one.name);
    if (!one.is_complete()) out << "            " << Printable(one.why_not) << "\n";
  }
  return absl::OkStatus();
}

std::string ShapeText(const TensorSpec& tensor) {
  return tensor.shape.empty() ? "scalar" : absl::StrJoin(tensor.shape, "×");
}

absl::Status NotComplete(const SurveyedCheckpoint& one) {
  return absl::DataLossError(
      absl::StrCat("the checkpoint of step ", one.step.value(), " is not complete: ", one.why_not));
}

const char* KindOf(const TensorSpec& tensor) {
  switch (tensor.kind) {
    case TensorKind::kParameter: return "parameter";
    case TensorKind::kBuffer: return "buffer";
    case TensorKind::kSum: return "sum";
    case TensorKind::kPhase: return "phase";
  }
  return "";
}

ordered_json ShownJson(const Folder& folder, const SurveyedCheckpoint& one) {
  const Manifest& manifest = one.file->manifest;
  ordered_json json = AsJson(folder, one);
  json["job"] = manifest.job;
  json["slots"] = manifest.slots;
  json["skipped"] = manifest.skipped;
  json["left_out"] = manifest.left_out;
  json["fingerprint"] = manifest.fingerprint;
  json["chunk_bytes"] = manifest.chunk_bytes;
  json["spec"] = ordered_json::parse(manifest.spec, nullptr, /*allow_exceptions=*/false);
  json["tensors"] = ordered_json::array();
  for (const TensorSpec& tensor : manifest.tensors)
    json["tensors"].push_back({{"name", Printable(tensor.name)},
                               {"shape", tensor.shape},
                               {"type", NameOf(tensor.type)},
                               {"kind", KindOf(tensor)},
                               {"bytes", tensor.Bytes()}});
  json["members"] = ordered_json::array();
  for (const Segment& segment : manifest.segments)
    json["members"].push_back({{"file", segment.file},
                               {"bytes", segment.bytes},
                               {"parts", segment.entries.size()},
                               {"finite", segment.finite}});
  return json;
}

void ShowText(const Folder& folder, const SurveyedCheckpoint& one, std::ostream& out) {
  const Manifest& manifest = one.file->manifest;
  const auto line = [&](const char* name, const std::string& text) {
    out << absl::StrFormat("%-12s %s\n", name, Printable(text));
  };
  line("job", manifest.job);
  line("step", absl::StrCat(manifest.step.value(), ", lineage ", manifest.lineage.value()));
  if (const auto epoch = EpochOf(one)) line("epoch", absl::StrCat(*epoch));
  line("when", When(one));
  line("state", StateOf(one));
  if (!one.name.empty()) line("name", one.name);
  if (one.measure)
    line("measure", absl::StrCat(one.measure->measure, " ", MeasureText(folder, one)));
  if (manifest.skipped > 0)
    line("skipped", absl::StrCat(Plural(manifest.skipped, "step"), " that were not finite"));
  if (manifest.left_out > 0)
    line("left out",
         absl::StrCat(Plural(manifest.left_out, "use"), " of samples that could not be read"));
  if (!manifest.fingerprint.empty()) line("fingerprint", manifest.fingerprint);
  line("slots", absl::StrCat(manifest.slots, " beside the values"));
  out << "members\n";
  for (const Segment& segment : manifest.segments)
    out << absl::StrFormat("  %s  %s, %s\n", segment.file,
                           Bytes(static_cast<double>(segment.bytes)),
                           Plural(static_cast<int64_t>(segment.entries.size()), "part"));
  out << "tensors\n";
  for (const TensorSpec& tensor : manifest.tensors)
    out << absl::StrFormat("  %-40s  %-14s  %-8s  %s\n", Printable(tensor.name), ShapeText(tensor),
                           NameOf(tensor.type), KindOf(tensor));
}

absl::Status Show(const Folder& folder, const SurveyedCheckpoint& one, bool as_json,
                  std::ostream& out) {
  if (!one.file) return NotComplete(one);
  if (as_json)
    out << Text(ShownJson(folder, one)) << "\n";
  else
    ShowText(folder, one, out);
  return absl::OkStatus();
}

absl::Status VerifyOne(const Folder& folder, const SurveyedCheckpoint& one) {
  if (!one.is_complete()) return NotComplete(one);
  const Manifest& manifest = one.file->manifest;
  ProgressLine line(static_cast<double>(manifest.total_bytes), Bytes);
  return VerifyCheckpoint(*folder.files, manifest,
                          [&](uint64_t bytes) { line.At(static_cast<double>(bytes)); });
}

// All of them are looked at, whatever the first ones are.
absl::Status Verify(const Folder& folder, const std::vector<const SurveyedCheckpoint*>& chosen,
                    bool as_json, std::ostream& out) {
  absl::Status first;
  ordered_json list = ordered_json::array();
  for (const SurveyedCheckpoint* one : chosen) {
    const absl::Status sound = VerifyOne(folder, *one);
    first.Update(sound);
    ordered_json json = {{"step", one->step.value()},
                         {"lineage", one->lineage.value()},
                         {"bytes", one->bytes},
                         {"sound", sound.ok()}};
    if (!sound.ok()) json["why"] = Printable(sound.message());
    list.push_back(std::move(json));
    if (!as_json)
      out << absl::StrFormat("step %d  %s  %s\n", one->step.value(),
                             Bytes(static_cast<double>(one->bytes)),
                             sound.ok() ? "sound" : Printable(sound.message()));
  }
  if (as_json) out << Text(ordered_json{{"checkpoints", list}}) << "\n";
  if (first.ok()) return first;
  return absl::DataLossError(
      absl::StrCat(first.message(), "; delete it, or bring back a copy of it"));
}

absl::Status MayGo(const Folder& folder, const SurveyedCheckpoint& one) {
  const SurveyedCheckpoint* const newest = NewestComplete(folder);
  if (newest == &one)
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint of step ", one.step.value(),
        " is the newest that is complete, from which the job would go on; --force deletes it all "
        "the same"));
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
  return FileError(error.value(), "find", folder);
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
  if (arguments.json)
    out << Text(ordered_json{{"deleted", one.step.value()},
                             {"lineage", one.lineage.value()},
                             {"bytes", one.bytes}})
        << "\n";
  else
    out << absl::StrFormat("the checkpoint of step %d is deleted: %s\n", one.step.value(),
                           Bytes(static_cast<double>(one.bytes)));
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
  if (arguments.release == !arguments.name.empty())
    return absl::InvalidArgumentError(
        "write --name NAME to keep a checkpoint, or --release to keep it no more");
  CheckpointFiles& files = *folder.files;
  if (arguments.release) {
    MUSTER_RETURN_IF_ERROR(files.Remove(KeptFileOf(one.lineage, one.step)));
  } else {
    if (!one.is_complete()) return NotComplete(one);
    MUSTER_RETURN_IF_ERROR(CheckIsFree(folder, one, arguments.name));
    MUSTER_RETURN_IF_ERROR(KeepCheckpoint(files, one.lineage, one.step, arguments.name));
  }
  ordered_json now = AsJson(folder, one);
  now["name"] = arguments.release ? ordered_json() : ordered_json(arguments.name);
  if (arguments.json)
    out << Text(now) << "\n";
  else
    out << absl::StrFormat("the checkpoint of step %d is kept %s\n", one.step.value(),
                           arguments.release ? "no more" : absl::StrCat("as ", arguments.name));
  return absl::OkStatus();
}

}  // namespace

absl::Status Checkpoints(const CheckpointsArguments& arguments, const ForgetCheckpoint& forget,
                         const HoldRoot& hold, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const Folder folder, Open(arguments));
  if (arguments.verb == Verb::kList) return List(folder, arguments.json, out);
  const bool is_of_all = arguments.verb == Verb::kVerify && WhichOf(arguments).empty();
  if (is_of_all && !folder.all.empty()) {
    std::vector<const SurveyedCheckpoint*> all;
    for (const SurveyedCheckpoint& one : folder.all) all.push_back(&one);
    return Verify(folder, all, arguments.json, out);
  }
  if (arguments.verb == Verb::kDelete && WhichOf(arguments).empty())
    return absl::InvalidArgumentError(
        "which checkpoint? Write --step STEP; muster checkpoints list shows those there are");
  MUSTER_ASSIGN_OR_RETURN(const SurveyedCheckpoint* one, Find(folder, arguments));
  switch (arguments.verb) {
    case Verb::kShow: return Show(folder, *one, arguments.json, out);
    case Verb::kDelete: return Delete(arguments, folder, *one, forget, hold, out);
    case Verb::kKeep: return Keep(arguments, folder, *one, out);
    default: return Verify(folder, {one}, arguments.json, out);
  }
}

}  // namespace muster::cli
