#include "cli/checkpoint_report.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/json_text.h"
#include "cli/saved_model.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/domain/labels.h"
#include "lib/domain/tensor_text.h"
#include "lib/domain/tensor_type.h"
#include "lib/launch/progress_line.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {

using nlohmann::ordered_json;

namespace {

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

std::string StateOf(const CheckpointRow& row) {
  if (!row.why_not.empty()) return "incomplete";
  return row.finite ? "complete" : "not finite";
}

std::vector<std::string> UnreadOf(const SurveyedCheckpoint& one) {
  std::vector<std::string> unread;
  for (const absl::Status& read : {one.name_read, one.measure_read})
    if (!read.ok()) unread.emplace_back(read.message());
  return unread;
}

std::vector<std::string> PrintableEach(std::vector<std::string> texts) {
  for (std::string& text : texts) text = Printable(text);
  return texts;
}

// "0.693147", and of the best one "0.693147 best".
std::string MeasureText(const CheckpointRow& row) {
  if (!row.measure) return "";
  return absl::StrFormat("%.6g%s", row.measure->value, row.best ? " best" : "");
}

std::string ShapeText(const TensorSpec& tensor) {
  return tensor.shape.empty() ? "scalar" : absl::StrJoin(tensor.shape, "×");
}

std::string AlsoText(const TensorSpec& tensor) {
  if (tensor.aliases.empty()) return "";
  return absl::StrCat(", also ", absl::StrJoin(PrintableAliases(tensor), ", "));
}

ordered_json ShownJson(const SurveyedCheckpoint& one, const CheckpointRow& row) {
  const Manifest& manifest = one.file->manifest;
  ordered_json json = AsJson(row);
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
                               {"bytes", tensor.Bytes()},
                               {"aliases", PrintableAliases(tensor)}});
  json["members"] = ordered_json::array();
  for (const Segment& segment : manifest.segments)
    json["members"].push_back({{"file", segment.file},
                               {"bytes", segment.bytes},
                               {"parts", segment.entries.size()},
                               {"finite", segment.finite}});
  return json;
}

void ShowText(const SurveyedCheckpoint& one, const CheckpointRow& row, std::ostream& out) {
  const Manifest& manifest = one.file->manifest;
  const auto line = [&](const char* name, const std::string& text) {
    out << absl::StrFormat("%-12s %s\n", name, Printable(text));
  };
  line("job", manifest.job);
  line("step", absl::StrCat(manifest.step.value(), ", lineage ", manifest.lineage.value()));
  if (row.epoch) line("epoch", absl::StrCat(*row.epoch));
  line("when", row.when);
  line("state", StateOf(row));
  if (!one.name.empty()) line("name", one.name);
  if (one.measure) line("measure", absl::StrCat(one.measure->measure, " ", MeasureText(row)));
  for (const std::string& file : row.unread) line("damaged", file);
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
    out << absl::StrFormat("  %-40s  %-14s  %-8s  %s%s\n", Printable(tensor.name),
                           ShapeText(tensor), NameOf(tensor.type), KindOf(tensor),
                           AlsoText(tensor));
}

absl::Status VerifyState(const CheckpointFiles& files, const SurveyedCheckpoint& one) {
  if (!one.is_complete()) return NotComplete(one);
  const Manifest& manifest = one.file->manifest;
  ProgressLine line(static_cast<double>(manifest.total_bytes), Bytes);
  return VerifyCheckpoint(files, manifest,
                          [&](uint64_t bytes) { line.At(static_cast<double>(bytes)); });
}

}  // namespace

absl::Status CheckKeepsOrReleases(const CheckpointsArguments& arguments) {
  if (arguments.release == !arguments.name.empty())
    return absl::InvalidArgumentError(
        "write --name NAME to keep a checkpoint, or --release to keep it no more");
  if (arguments.release || IsNewKeptName(arguments.name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--name: '", Cut(Printable(arguments.name)),
                   "' is no name of a checkpoint; allowed: ", kNewKeptNameRule));
}

absl::Status CheckSaysWhich(const CheckpointArguments& arguments) {
  if (!WhichOf(arguments).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "which checkpoint? Write --step STEP; muster checkpoints list shows those there are");
}

CheckpointRow RowOf(const SurveyedCheckpoint& one, bool is_best) {
  return {.step = one.step.value(),
          .lineage = one.lineage.value(),
          .epoch = EpochOf(one),
          .bytes = one.bytes,
          .when = When(one),
          .why_not = one.why_not,
          .finite = one.file && IsFinite(one.file->manifest),
          .name = one.name,
          .measure = one.measure,
          .best = is_best,
          .unread = UnreadOf(one)};
}

ordered_json AsJson(const CheckpointRow& row) {
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
  if (!row.unread.empty()) json["damaged"] = PrintableEach(row.unread);
  return json;
}

void ListAsText(const std::string& place, const std::vector<CheckpointRow>& rows,
                std::ostream& out) {
  if (rows.empty()) {
    out << Printable(place) << " holds no checkpoint\n";
    return;
  }
  // No column of what no checkpoint has.
  const bool is_any_measured = std::any_of(
      rows.begin(), rows.end(), [](const CheckpointRow& row) { return row.measure.has_value(); });
  const auto measure = [&](const std::string& text) {
    return is_any_measured ? absl::StrFormat("%-17s  ", text) : "";
  };
  out << absl::StrFormat("%10s  %7s  %5s  %9s  %-20s  %-10s  %s%s\n", "step", "lineage", "epoch",
                         "bytes", "when", "state", measure("measure"), "name");
  for (const CheckpointRow& row : rows) {
    out << absl::StrFormat("%10d  %7d  %5s  %9s  %-20s  %-10s  %s%s\n", row.step, row.lineage,
                           row.epoch ? absl::StrCat(*row.epoch) : "?",
                           Bytes(static_cast<double>(row.bytes)), row.when, StateOf(row),
                           measure(MeasureText(row)), row.name);
    if (!row.why_not.empty()) out << "            " << Printable(row.why_not) << "\n";
    for (const std::string& file : row.unread) out << "            " << Printable(file) << "\n";
  }
}

absl::Status NotComplete(const SurveyedCheckpoint& one) {
  return absl::DataLossError(
      absl::StrCat("the checkpoint of step ", one.step.value(), " is not complete: ", one.why_not));
}

absl::Status ShowCheckpoint(const SurveyedCheckpoint& one, bool is_best, bool as_json,
                            std::ostream& out) {
  if (!one.file) return NotComplete(one);
  const CheckpointRow row = RowOf(one, is_best);
  if (as_json)
    out << Text(ShownJson(one, row)) << "\n";
  else
    ShowText(one, row, out);
  return absl::OkStatus();
}

absl::Status VerifyOne(const CheckpointFiles& files, const SurveyedCheckpoint& one) {
  absl::Status whole = VerifyState(files, one);
  // One of a cluster that went meanwhile is not damaged.
  if (!whole.ok() && !absl::IsFailedPrecondition(whole))
    whole = absl::Status(whole.code(),
                         absl::StrCat(whole.message(), "; delete it, or bring back a copy of it"));
  absl::Status first;
  std::vector<std::string> why;
  for (const absl::Status& part : {whole, one.name_read, one.measure_read}) {
    first.Update(part);
    if (!part.ok()) why.emplace_back(part.message());
  }
  return absl::Status(first.code(), absl::StrJoin(why, "; "));
}

absl::Status VerifyEach(const std::vector<CheckpointToVerify>& chosen, bool as_json,
                        std::ostream& out) {
  absl::Status first;
  ordered_json list = ordered_json::array();
  for (const CheckpointToVerify& one : chosen) {
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
  return absl::DataLossError(first.message());
}

void TellNote(const std::string& note) {
  if (!note.empty()) std::cerr << "note: " << note << std::endl;
}

void TellChange(bool as_json, const ordered_json& now, const std::string& text, std::ostream& out) {
  out << (as_json ? Text(now) : text) << "\n";
}

void TellDeleted(bool as_json, const CheckpointRow& row, std::ostream& out) {
  TellChange(as_json, {{"deleted", row.step}, {"lineage", row.lineage}, {"bytes", row.bytes}},
             absl::StrFormat("the checkpoint of step %d is deleted: %s", row.step,
                             Bytes(static_cast<double>(row.bytes))),
             out);
}

std::string KeptText(const CheckpointsArguments& arguments, int64_t step) {
  return absl::StrFormat("the checkpoint of step %d is kept %s", step,
                         arguments.release ? "no more" : absl::StrCat("as ", arguments.name));
}

}  // namespace muster::cli
