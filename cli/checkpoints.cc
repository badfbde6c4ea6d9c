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

// What a list says of one, wherever it lies.
struct Row {
  int64_t step = 0;
  int64_t lineage = 0;
  std::optional<int64_t> epoch;
  uint64_t bytes = 0;
  std::string when;       // empty: nobody knows
  std::string why_not{};  // it is not complete; empty: it is
  bool finite = false;
  std::string name{};
  std::optional<StateMeasure> measure{};
  bool best = false;
};

Row RowOf(const Folder& folder, const SurveyedCheckpoint& one) {
  return {.step = one.step.value(),
          .lineage = one.lineage.value(),
          .epoch = EpochOf(one),
          .bytes = one.bytes,
          .when = When(one),
          .why_not = one.why_not,
          .finite = one.file && IsFinite(one.file->manifest),
          .name = one.name,
          .measure = one.measure,
          .best = IsBest(folder, one)};
}

// "2026-11-21T10:11:20.096Z" to the second, as of those in folders.
std::string ToTheSecond(const std::string& time) {
  constexpr size_t kWholeSeconds = 19;
  return time.size() > kWholeSeconds ? absl::StrCat(time.substr(0, kWholeSeconds), "Z") : time;
}

Row RowOf(const SavedCheckpointAnswer& one) {
  Row row{.step = one.step,
          .lineage = one.lineage,
          .epoch = one.epoch < 0 ? std::nullopt : std::optional(one.epoch),
          .bytes = static_cast<uint64_t>(std::max(int64_t{0}, one.bytes)),
          .when = ToTheSecond(Printable(one.time)),
          .why_not = one.complete || !one.why.empty() ? one.why : "its files are not all there",
          .finite = one.finite,
          .name = Printable(one.name)};
  if (one.value && !one.measure.empty()) row.measure = {Printable(one.measure), *one.value};
  row.best = one.best;
  return row;
}

ordered_json AsJson(const Row& row) {
  ordered_json json = {{"step", row.step}, {"lineage", row.lineage},
                       {"epoch", nullptr}, {"bytes", row.bytes},
                       {"time", nullptr},  {"complete", row.why_not.empty()},
                       {"name", nullptr}};
  if (row.epoch) json["epoch"] = *row.epoch;
  if (!row.when.empty()) json["time"] = row.when;
  if (row.why_not.empty())
    json["finite"] = row.finite;
  else
    json["why"] = Printable(row.why_not);
  if (!row.name.empty()) json["name"] = row.name;
  if (row.measure) {
    json["measures"] = {{row.measure->measure, row.measure->value}};
    json["best"] = row.best;
  }
  return json;
}

ordered_json AsJson(const Folder& folder, const SurveyedCheckpoint& one) {
  return AsJson(RowOf(folder, one));
}

ordered_json AsJson(const SavedCheckpointAnswer& one) {
  ordered_json json = AsJson(RowOf(one));
  json["checkpoint"] = Printable(one.checkpoint);
  json["left_out"] = one.left_out;
  json["deleting"] = one.deleting;
  return json;
}

std::string StateOf(const Row& row) {
  if (!row.why_not.empty()) return "incomplete";
  return row.finite ? "complete" : "not finite";
}

// "0.693147", and of the best one "0.693147 best".
std::string MeasureText(const Row& row) {
  if (!row.measure) return "";
  return absl::StrFormat("%.6g%s", row.measure->value, row.best ? " best" : "");
}

// `place` is what they are called that are listed.
void ListAsText(const std::string& place, const std::vector<Row>& rows, std::ostream& out) {
  if (rows.empty()) {
    out << Printable(place) << " holds no checkpoint\n";
    return;
  }
  // No column of what no checkpoint has.
  const bool is_any_measured =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.measure.has_value(); });
  const auto measure = [&](const std::string& text) {
    return is_any_measured ? absl::StrFormat("%-17s  ", text) : "";
  };
  out << absl::StrFormat("%10s  %7s  %5s  %9s  %-20s  %-10s  %s%s\n", "step", "lineage", "epoch",
                         "bytes", "when", "state", measure("measure"), "name");
  for (const Row& row : rows) {
    out << absl::StrFormat("%10d  %7d  %5s  %9s  %-20s  %-10s  %s%s\n", row.step, row.lineage,
                           row.epoch ? absl::StrCat(*row.epoch) : "?",
                           Bytes(static_cast<double>(row.bytes)), row.when, StateOf(row),
                           measure(MeasureText(row)), row.name);
    if (!row.why_not.empty()) out << "            " << Printable(row.why_not) << "\n";
  }
}

void List(const Folder& folder, bool as_json, std::ostream& out) {
  std::vector<Row> rows;
  for (const SurveyedCheckpoint& one : folder.all) rows.push_back(RowOf(folder, one));
  if (!as_json) return ListAsText(folder.path, rows, out);
  ordered_json list = ordered_json::array();
  for (const Row& row : rows) list.push_back(AsJson(row));
  out << Text(ordered_json{{"folder", folder.path}, {"checkpoints", list}}) << "\n";
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
  const Row row = RowOf(folder, one);
  line("state", StateOf(row));
  if (!one.name.empty()) line("name", one.name);
  if (one.measure) line("measure", absl::StrCat(one.measure->measure, " ", MeasureText(row)));
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

absl::Status VerifyOne(const CheckpointFiles& files, const SurveyedCheckpoint& one) {
  if (!one.is_complete()) return NotComplete(one);
  const Manifest& manifest = one.file->manifest;
  ProgressLine line(static_cast<double>(manifest.total_bytes), Bytes);
  return VerifyCheckpoint(files, manifest,
                          [&](uint64_t bytes) { line.At(static_cast<double>(bytes)); });
}

struct ToVerify {
  int64_t step = 0;
  int64_t lineage = 0;
  uint64_t bytes = 0;
  std::function<absl::Status()> look;
};

// All of them are looked at, whatever the first ones are.
absl::Status Verify(const std::vector<ToVerify>& chosen, bool as_json, std::ostream& out) {
  absl::Status first;
  ordered_json list = ordered_json::array();
  for (const ToVerify& one : chosen) {
    const absl::Status sound = one.look();
    first.Update(sound);
    ordered_json json = {
        {"step", one.step}, {"lineage", one.lineage}, {"bytes", one.bytes}, {"sound", sound.ok()}};
    if (!sound.ok()) json["why"] = Printable(sound.message());
    list.push_back(std::move(json));
    if (!as_json)
      out << absl::StrFormat("step %d  %s  %s\n", one.step, Bytes(static_cast<double>(one.bytes)),
                             sound.ok() ? "sound" : Printable(sound.message()));
  }
  if (as_json) out << Text(ordered_json{{"checkpoints", list}}) << "\n";
  // One of a cluster that went meanwhile is not damaged.
  if (first.ok() || absl::IsFailedPrecondition(first)) return first;
  return absl::DataLossError(
      absl::StrCat(first.message(), "; delete it, or bring back a copy of it"));
}

absl::Status Verify(const Folder& folder, const std::vector<const SurveyedCheckpoint*>& chosen,
                    bool as_json, std::ostream& out) {
  std::vector<ToVerify> all;
  for (const SurveyedCheckpoint* one : chosen)
    all.push_back({one->step.value(), one->lineage.value(), one->bytes,
                   [&folder, one] { return VerifyOne(*folder.files, *one); }});
  return Verify(all, as_json, out);
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

// As JSON, or in a sentence.
void Tell(bool as_json, const ordered_json& now, const std::string& text, std::ostream& out) {
  out << (as_json ? Text(now) : text) << "\n";
}

void TellDeleted(bool as_json, const Row& row, std::ostream& out) {
  Tell(as_json, {{"deleted", row.step}, {"lineage", row.lineage}, {"bytes", row.bytes}},
       absl::StrFormat("the checkpoint of step %d is deleted: %s", row.step,
                       Bytes(static_cast<double>(row.bytes))),
       out);
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

absl::Status CheckKeepsOrReleases(const CheckpointsArguments& arguments) {
  if (arguments.release != !arguments.name.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "write --name NAME to keep a checkpoint, or --release to keep it no more");
}

absl::Status CheckSaysWhich(const CheckpointArguments& arguments) {
  if (!WhichOf(arguments).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "which checkpoint? Write --step STEP; muster checkpoints list shows those there are");
}

std::string KeptText(const CheckpointsArguments& arguments, int64_t step) {
  return absl::StrFormat("the checkpoint of step %d is kept %s", step,
                         arguments.release ? "no more" : absl::StrCat("as ", arguments.name));
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
  ordered_json now = AsJson(folder, one);
  now["name"] = arguments.release ? ordered_json() : ordered_json(arguments.name);
  Tell(arguments.json, now, KeptText(arguments, one.step.value()), out);
  return absl::OkStatus();
}

// Of a job of a cluster.
class ClusterJob {
 public:
  ClusterJob(const RestClient& rest, std::string id, ClusterFilesPatience patience)
      : rest_(rest), id_(std::move(id)), patience_(patience) {}

  absl::Status Read() {
    MUSTER_ASSIGN_OR_RETURN(all_, rest_.Checkpoints(id_));
    return absl::OkStatus();
  }

  absl::Status List(bool as_json, std::ostream& out) const {
    if (!as_json) {
      std::vector<Row> rows;
      for (const SavedCheckpointAnswer& one : all_) rows.push_back(RowOf(one));
      ListAsText(absl::StrCat("job ", id_), rows, out);
      return absl::OkStatus();
    }
    ordered_json list = ordered_json::array();
    for (const SavedCheckpointAnswer& one : all_) list.push_back(AsJson(one));
    out << Text(ordered_json{{"job", id_}, {"checkpoints", list}}) << "\n";
    return absl::OkStatus();
  }

  // Where none is named, the newest that is whole.
  absl::StatusOr<const SavedCheckpointAnswer*> Find(const CheckpointArguments& arguments) const {
    if (all_.empty()) return absl::NotFoundError(absl::StrCat("job ", id_, " has no checkpoint"));
    if (WhichOf(arguments).empty()) {
      const auto newest =
          std::find_if(all_.rbegin(), all_.rend(), [](const auto& one) { return one.complete; });
      if (newest != all_.rend()) return &*newest;
    }
    MUSTER_ASSIGN_OR_RETURN(
        const CheckpointPlace place,
        ChoosePlace(PlacesOf(all_), absl::StrCat("job ", id_), WhichOf(arguments)));
    return &*std::find_if(all_.begin(), all_.end(),
                          [&](const auto& one) { return PlaceOf(one) == place; });
  }

  absl::Status Show(const SavedCheckpointAnswer& one, bool as_json, std::ostream& out) const {
    Folder folder;
    folder.path = absl::StrCat("job ", id_);
    folder.all = {Survey(*FilesOf(one), one)};
    if (one.best) folder.best = 0;
    return cli::Show(folder, folder.all.front(), as_json, out);
  }

  // What is read here is compared here.
  absl::Status Verify(const std::vector<const SavedCheckpointAnswer*>& chosen, bool as_json,
                      std::ostream& out) const {
    std::vector<ToVerify> all;
    for (const SavedCheckpointAnswer* one : chosen)
      all.push_back({one->step, one->lineage, RowOf(*one).bytes, [this, one] {
                       const std::unique_ptr<CheckpointFiles> files = FilesOf(*one);
                       return VerifyOne(*files, Survey(*files, *one));
                     }});
    return cli::Verify(all, as_json, out);
  }
  absl::Status VerifyAll(bool as_json, std::ostream& out) const {
    std::vector<const SavedCheckpointAnswer*> chosen;
    for (const SavedCheckpointAnswer& one : all_) chosen.push_back(&one);
    return Verify(chosen, as_json, out);
  }

  absl::Status Keep(const CheckpointsArguments& arguments, const SavedCheckpointAnswer& one,
                    std::ostream& out) const {
    MUSTER_ASSIGN_OR_RETURN(
        const SavedCheckpointAnswer now,
        rest_.KeepCheckpoint(id_, one.checkpoint, arguments.release ? "" : arguments.name));
    Tell(arguments.json, AsJson(now), KeptText(arguments, one.step), out);
    return absl::OkStatus();
  }

  absl::Status Delete(const CheckpointsArguments& arguments, const SavedCheckpointAnswer& one,
                      std::ostream& out) const {
    MUSTER_ASSIGN_OR_RETURN(const SavedCheckpointAnswer gone,
                            rest_.DeleteCheckpoint(id_, one.checkpoint, arguments.force));
    TellDeleted(arguments.json, RowOf(gone), out);
    return absl::OkStatus();
  }

 private:
  static CheckpointPlace PlaceOf(const SavedCheckpointAnswer& one) {
    return {LineageNumber(one.lineage), Step(one.step)};
  }
  std::unique_ptr<CheckpointFiles> FilesOf(const SavedCheckpointAnswer& one) const {
    return FilesOfCheckpoint(rest_, id_, PlaceOf(one), patience_);
  }
  // Folders of a cluster are not listed, so how large it is is what the coordinator says.
  static SurveyedCheckpoint Survey(const CheckpointFiles& files, const SavedCheckpointAnswer& one) {
    SurveyedCheckpoint found = std::move(SurveyCheckpoints(files, {PlaceOf(one)}).front());
    found.bytes = RowOf(one).bytes;
    return found;
  }

  const RestClient& rest_;
  const std::string id_;
  const ClusterFilesPatience patience_;
  std::vector<SavedCheckpointAnswer> all_;
};

}  // namespace

absl::Status CheckpointsOfCluster(const CheckpointsArguments& arguments, const RestClient& rest,
                                  std::ostream& out, ClusterFilesPatience patience) {
  MUSTER_ASSIGN_OR_RETURN(const std::string id, JobOfCluster(arguments));
  if (arguments.verb == Verb::kKeep) MUSTER_RETURN_IF_ERROR(CheckKeepsOrReleases(arguments));
  if (arguments.verb == Verb::kDelete) MUSTER_RETURN_IF_ERROR(CheckSaysWhich(arguments));
  ClusterJob job(rest, id, patience);
  MUSTER_RETURN_IF_ERROR(job.Read());
  if (arguments.verb == Verb::kList) return job.List(arguments.json, out);
  MUSTER_ASSIGN_OR_RETURN(const SavedCheckpointAnswer* one, job.Find(arguments));
  switch (arguments.verb) {
    case Verb::kShow: return job.Show(*one, arguments.json, out);
    case Verb::kKeep: return job.Keep(arguments, *one, out);
    case Verb::kDelete: return job.Delete(arguments, *one, out);
    default: break;
  }
  if (WhichOf(arguments).empty()) return job.VerifyAll(arguments.json, out);
  return job.Verify({one}, arguments.json, out);
}

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
    case Verb::kShow: return Show(folder, *one, arguments.json, out);
    case Verb::kDelete: return Delete(arguments, folder, *one, forget, hold, out);
    case Verb::kKeep: return Keep(arguments, folder, *one, out);
    default: return Verify(folder, {one}, arguments.json, out);
  }
}

}  // namespace muster::cli
