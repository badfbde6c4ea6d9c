#include "cli/spec_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/task/model_size.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostTextBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.eof() && !in)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno != 0 ? errno : EIO)));
  if (in)
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has more than the ", kMostTextBytes >> 20, " MiB that are allowed"));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

namespace {

// A job runs in other directories than the one of whoever submits it.
std::string WholePath(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  if (error || path.front() == '/') return path;
  const std::string text = whole.lexically_normal().string();
  return text.size() > 1 && text.back() == '/' ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

absl::StatusOr<JobSpec> ReadSpec(const std::string& path, const std::vector<std::string>& settings,
                                 std::optional<int> workers, std::optional<int> servers) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, ParseJobYaml(text, path, settings));
  if (workers) {
    spec.runtime.workers_max = *workers;
    spec.runtime.workers_min = std::min(spec.runtime.workers_min, *workers);
  }
  for (std::string& data : spec.training.data.paths) data = WholePath(data);
  if (servers) spec.runtime.servers = *servers;
  if (const auto too_large = TooLargeForAJob(spec.training))
    return FieldError(path, too_large->field, too_large->reason);
  return Complete(spec);
}

std::vector<std::string> NotesOn(const JobSpec& spec) {
  const TrainingSpec& training = spec.training;
  std::vector<std::string> notes;
  if (const int spares = spec.runtime.workers_max - training.lanes; spares > 0)
    notes.push_back(absl::StrCat(Plural(training.lanes, "lane"), " for ", spec.runtime.workers_max,
                                 " workers: ", spares, spares == 1 ? " has" : " have",
                                 " nothing to compute and only stand", spares == 1 ? "s" : "",
                                 " by; take fewer workers, or more lanes"));
  if (training.batch < training.lanes)
    notes.push_back(absl::StrCat(Plural(training.batch, "sample"), " of a step (batch) for ",
                                 training.lanes, " lanes: ", training.lanes - training.batch,
                                 " of them stay empty; take a larger batch, or fewer lanes"));
  if (training.steps > 0 && training.schedule.warmup_steps > training.steps)
    notes.push_back(absl::StrCat("schedule.warmup_steps (", training.schedule.warmup_steps,
                                 ") is more than steps (", training.steps,
                                 "): the learning rate never reaches its full size"));
  const CheckpointPolicy& checkpoint = spec.runtime.checkpoint;
  if (!checkpoint.at_end && checkpoint.every_steps == 0 && checkpoint.every_seconds == 0)
    notes.push_back(
        "no checkpoint is ever made: checkpoint.every_steps and checkpoint.every_seconds are 0, "
        "and checkpoint.at_end is false");
  return notes;
}

}  // namespace muster::cli
