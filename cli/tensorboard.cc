#include "cli/tensorboard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/job_history.h"
#include "lib/base/exit_codes.h"
#include "lib/base/output_file.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/tensorboard/run.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

// One for each job, so that it takes the place of what was written before.
constexpr char kFile[] = "events.out.tfevents.00000000000000000000.muster";

struct Run {
  std::string records;
  int64_t steps = 0;
  int64_t step = 0;  // the last one
  int64_t unix_ms = 0;
};

absl::Status AppendSteps(const JobPlace& place, const std::string& name, const JobSpec& spec,
                         Run& run) {
  std::vector<size_t> ends;  // of the records of each step, from that of the first one
  int64_t first = 0;
  return ReadHistory(place.rest, place.job, 0, [&](const std::vector<HistoryStep>& steps) {
    if (ends.empty()) {
      first = steps.front().step;
      run.records = tensorboard::BeginRun(name, spec, steps.front().unix_ms);
      ends.push_back(run.records.size());
    }
    // What a rewind has left out meanwhile goes.
    const auto kept = static_cast<size_t>(std::max<int64_t>(0, steps.front().step - first));
    if (kept + 1 < ends.size()) ends.resize(kept + 1);
    run.records.resize(ends.back());
    for (const HistoryStep& step : steps) {
      run.records += tensorboard::StepValues(step);
      ends.push_back(run.records.size());
    }
    run.steps = static_cast<int64_t>(ends.size()) - (steps.back().last_state ? 2 : 1);
    run.step = steps.back().step;
    run.unix_ms = steps.back().unix_ms;
    return true;
  });
}

absl::StatusOr<Run> RunOf(const JobPlace& place, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, place.rest.Job(place.job));
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ParseStoredJob(job.spec, "the job's specification"));
  Run run;
  MUSTER_RETURN_IF_ERROR(AppendSteps(place, name, spec, run));
  if (run.steps == 0 || !IsOver(job)) return run;
  run.records += tensorboard::End(
      run.unix_ms, run.step,
      job.state == "failed" ? tensorboard::Status::kFailure : tensorboard::Status::kSuccess);
  if (!job.sample.empty()) run.records += tensorboard::Sample(run.unix_ms, run.step, job.sample);
  return run;
}

}  // namespace

absl::StatusOr<int> TensorBoard(const RemoteArguments& arguments, const std::vector<JobPlace>& jobs,
                                std::ostream& out) {
  const std::vector<std::string> names = NamesOf(jobs);
  std::map<std::string, std::string> written;  // the runs, by their folder
  for (size_t i = 0; i < jobs.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const Run run, RunOf(jobs[i], names[i]));
    if (run.steps == 0) {
      out << "note: " << Printable(names[i]) << " has no step yet" << std::endl;
      continue;
    }
    // A folder in the name of a run would be one of several levels.
    const std::string folder =
        absl::StrCat(arguments.output, "/", absl::StrReplaceAll(names[i], {{"/", "_"}}));
    if (const auto [first, is_new] = written.emplace(folder, names[i]); !is_new)
      return absl::InvalidArgumentError(
          absl::StrCat(Printable(names[i]), " and ", Printable(first->second), " would both be ",
                       Printable(folder), "; write them to two folders"));
    if (std::filesystem::exists(arguments.output))
      MUSTER_RETURN_IF_ERROR(CheckFolderToFill(folder));
    MUSTER_RETURN_IF_ERROR(MakeDirectories(folder));
    MUSTER_RETURN_IF_ERROR(WriteOutputFile(absl::StrCat(folder, "/", kFile), run.records));
    out << Printable(folder) << ": " << Plural(run.steps, "step") << std::endl;
  }
  return kExitDone;
}

}  // namespace muster::cli
