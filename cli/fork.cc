#include "cli/fork.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/job_file.h"
#include "cli/spec_file.h"
#include "lib/base/clock.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/job_id.h"
#include "lib/domain/labels.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

// An exchange has an end, and a large state takes longer.
constexpr int kTries = 360;

}  // namespace

absl::StatusOr<ForkPlace> ParseForkPlace(const std::string& text) {
  const size_t at = text.find('@');
  ForkPlace place{.job = text.substr(0, at)};
  const std::string which = at == std::string::npos ? "latest" : text.substr(at + 1);
  int64_t step = 0;
  const bool has_step = ParseDigits(which, &step);
  if (!IsJobId(place.job) || (!has_step && !IsKeptName(which)))
    return absl::InvalidArgumentError(
        absl::StrCat("'", Cut(Printable(text)),
                     "' is neither JOB nor JOB@STEP, as in count-1@400, nor JOB@NAME with the name "
                     "of a checkpoint that is kept, JOB@best or JOB@latest"));
  if (has_step)
    place.step = step;
  else if (which != "latest")
    place.name = which;
  return place;
}

absl::StatusOr<JobAnswer> Fork(const RemoteArguments& arguments, const RestClient& rest,
                               const Terminal& terminal) {
  MUSTER_ASSIGN_OR_RETURN(const ForkPlace place, ParseForkPlace(arguments.parent));
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer parent, rest.Job(place.job));
  MUSTER_ASSIGN_OR_RETURN(const JobSpec held,
                          ParseJobJson(parent.spec, "the specification of the parent"));
  MUSTER_ASSIGN_OR_RETURN(
      JobSpec spec,
      ForkOf(held, {.job = place.job, .step = place.step, .name = place.name}, arguments.settings));
  MakePathsWhole(spec);
  const std::string id = arguments.job.empty() ? NewJobId(spec.runtime.name) : arguments.job;
  Screen screen(terminal, arguments.json);
  absl::StatusOr<JobAnswer> job = rest.Submit(id, ToJson(spec));
  for (int tries = 1; !job.ok() && IsPassing(job.status()) && tries < kTries; ++tries) {
    screen.ShowLine(absl::StrCat("job ", id, ": the state of ", arguments.parent, " is copied"),
                    RealClock().Now());
    std::this_thread::sleep_for(arguments.pause);
    job = rest.Submit(id, ToJson(spec));
  }
  screen.Finish();
  return job;
}

}  // namespace muster::cli
