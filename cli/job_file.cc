#include "cli/job_file.h"

#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/json_text.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{16} << 20;  // a specification has 1 MiB before it is JSON

absl::Status Write(const std::string& path, const std::string& id, const JobSpec& spec) {
  const nlohmann::ordered_json object = {{"id", id},
                                         {"training_hash", TrainingHash(spec.training)},
                                         {"spec", nlohmann::ordered_json::parse(ToJson(spec))}};
  const absl::Status written = ReplaceFile(path, Text(object, 2) + "\n");
  if (!written.ok())
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path, ": ", written.message(), "; or give another --dir"));
  return absl::OkStatus();
}

absl::Status CheckTraining(const std::string& folder, const std::string& id,
                           const TrainingSpec& held, const TrainingSpec& asked) {
  const std::vector<std::string> differences = TrainingDifferences(held, asked);
  const Lengthening longer = LengtheningOf(held, asked);
  if (differences.empty() || longer.is_possible()) return absl::OkStatus();
  if (!longer.field.empty())
    return absl::FailedPreconditionError(absl::StrCat(
        longer.field, ": the job ", id, " in ", folder, " cannot be made longer: ", longer.why_not,
        ". Give it as it was, or another --dir"));
  return absl::FailedPreconditionError(absl::StrCat(
      folder, " holds job ", id, " under another training specification (there against here): ",
      absl::StrJoin(differences, "; "), ". Give these fields as they were, or another --dir"));
}

// Null: there is none of this end of the job.
nlohmann::json ResultOf(const std::string& folder, const std::string& state, int64_t steps) {
  const absl::StatusOr<std::string> text = ReadWholeFile(folder + "/result.json");
  if (!text.ok()) return nullptr;
  nlohmann::json kept = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool is_of_this_end = kept.is_object() && kept.contains("state") &&
                              kept["state"] == state && kept.contains("steps") &&
                              kept["steps"] == steps;
  if (!is_of_this_end) return nullptr;
  return kept;
}

}  // namespace

absl::StatusOr<std::string> JobIdOf(const std::string& folder, const JobSpec& spec,
                                    const std::string& new_id) {
  const std::string path = folder + "/job.json";
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostBytes);
  if (absl::IsNotFound(text.status())) {
    const std::string id = new_id.empty() ? NewJobId(spec.runtime.name) : new_id;
    MUSTER_RETURN_IF_ERROR(Write(path, id, spec));
    return id;
  }
  MUSTER_RETURN_IF_ERROR(text.status());
  const auto object = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool whole = object.is_object() && object.contains("id") && object["id"].is_string() &&
                     object.contains("spec");
  if (!whole) return absl::DataLossError(absl::StrCat(path, " cannot be read: give another --dir"));
  const std::string id = object["id"].get<std::string>();
  MUSTER_ASSIGN_OR_RETURN(const JobSpec held, ParseStoredJob(Text(object["spec"]), path));
  MUSTER_RETURN_IF_ERROR(CheckTraining(folder, id, held.training, spec.training));
  // Also where only what may differ between starts does: other hosts compare theirs with it.
  if (!(held == spec)) MUSTER_RETURN_IF_ERROR(Write(path, id, spec));
  return id;
}

std::vector<std::string> DifferencesFrom(const std::string& folder, const JobSpec& spec) {
  const std::string path = folder + "/job.json";
  const std::string text = ReadWholeFile(path, kMostBytes).value_or("");
  const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("spec")) return {};
  const absl::StatusOr<JobSpec> held = ParseStoredJob(Text(object["spec"]), path);
  if (!held.ok()) return {};
  std::vector<std::string> differences = TrainingDifferences(held->training, spec.training);
  for (std::string& line : RuntimeDifferences(*held, spec)) differences.push_back(std::move(line));
  if (!(held->queue == spec.queue))
    differences.emplace_back("priority, deadline, retries or labels");
  return differences;
}

bool HasResultOf(const std::string& folder, const std::string& state, int64_t steps) {
  return !ResultOf(folder, state, steps).is_null();
}

std::string KeptSample(const std::string& folder, const std::string& id, const std::string& state,
                       int64_t steps) {
  const nlohmann::json kept = ResultOf(folder, state, steps);
  const bool has_one = kept.contains("job") && kept["job"] == id && kept.contains("sample") &&
                       kept["sample"].is_string();
  return has_one ? kept["sample"].get<std::string>() : "";
}

absl::Status KeepResult(const std::string& folder, const std::string& json) {
  return ReplaceFile(folder + "/result.json", json + "\n");
}

std::string FreshFolder(const std::string& job_name) {
  const std::string base =
      absl::StrCat("muster-runs/", job_name, "-",
                   absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone()));
  std::string folder = base;
  for (int n = 2; fs::exists(folder); ++n) folder = absl::StrCat(base, "-", n);
  return folder;
}

std::string NewJobId(const std::string& job_name) {
  return absl::StrFormat("%s-%06x", job_name, std::random_device()() & 0xffffffu);
}

}  // namespace muster::cli
