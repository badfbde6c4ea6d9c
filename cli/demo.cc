#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/demo_compare.h"
#include "cli/format.h"
#include "cli/job_file.h"
#include "cli/spec_file.h"
#include "cli/train.h"
#include "cli/train_run.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

constexpr int kWorkers = 3;
constexpr char kWords[] =
    "Some words:\n"
    "  lane         one of the fixed parts of each batch; one worker computes it\n"
    "  view         who takes part and who computes which lanes; a new one is formed after a loss "
    "or "
    "a return\n"
    "  seal         to stop working in a view and say what one holds, so that the next can be "
    "formed\n"
    "  owner        the member that adds up the gradients of a part of the model, for all\n"
    "  recovery     a new view after a loss\n"
    "  healed       is a member that fetched what it lacked of the model from another, its donor\n"
    "  spare        a worker that takes part without lanes, and steps in when another is lost\n"
    "  rewind       going back to a checkpoint, where no live copy of the model is left\n"
    "  fingerprint  a short number made of every bit of the model\n"
    "  ledger       the coordinator's record of every step: which samples it used, and who "
    "computed "
    "them\n";
constexpr char kPlanSource[] = "the demo's fault plan";
// Early, so that the undisturbed run, which only has to pass the last recovery, stays short.
constexpr char kPlan[] =
    "- {at_step: 15, kill: worker-2}\n"
    "- {at_step: 35, kill: coordinator, for_steps: 24}\n";
// Until the coordinator is back, and then some for the fingerprint that is compared.
constexpr int64_t kFewestSteps = 35 + 24 + 21;

absl::StatusOr<JobSpec> ReadDemoSpec(const DemoArguments& arguments) {
  std::error_code ignored;
  if (!std::filesystem::exists(arguments.spec, ignored))
    return absl::InvalidArgumentError(
        absl::StrCat("there is no ", arguments.spec,
                     " here: name the job's file with --spec, or run the demo where Muster's "
                     "sources are"));
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec,
                          ReadSpec(arguments.spec, arguments.settings, kWorkers));
  if (spec.training.steps > 0 && spec.training.steps < kFewestSteps)
    return absl::InvalidArgumentError(
        absl::StrCat("steps: the demo needs ", kFewestSteps, ", not ", spec.training.steps,
                     ": it kills a worker after step 15, and after step 35 the coordinator, for 24 "
                     "steps; give more with --set steps=N"));
  return spec;
}

// Most reasons begin with the word of the state.
absl::Status NotDone(const std::string& run, const JobAnswer& job) {
  std::string why = job.reason;
  if (!absl::StartsWith(why, job.state))
    why = absl::StrCat(job.state, why.empty() ? "" : ": ", why);
  return absl::UnavailableError(absl::StrCat("the ", run, " run is not done: ", why));
}

absl::StatusOr<JobResult> RunDisturbed(const JobSpec& spec, const std::string& folder,
                                       const ClusterMaker& make_cluster, Screen& screen) {
  screen.Say(kWords);
  screen.Say(absl::StrCat(
      "1. With ", Plural(spec.runtime.workers_max, "worker"),
      "; worker-2 is killed after step 15, the coordinator after step 35, for 24 steps.\n"));
  const JobResult result = RunJob({.spec = spec,
                                   .folder = folder + "/disturbed",
                                   .faults = kPlan,
                                   .faults_source = kPlanSource},
                                  make_cluster, screen);
  screen.Finish();
  MUSTER_RETURN_IF_ERROR(result.error);
  screen.Say("");
  screen.Say(ResultText(result));
  const std::string shortfall = Shortfall(result);
  if (result.job.state == "done" && !shortfall.empty()) return absl::UnavailableError(shortfall);
  if (result.job.state == "done") return result;
  return NotDone("disturbed", result.job);
}

absl::StatusOr<JobResult> RunUndisturbed(JobSpec spec, const std::string& folder,
                                         int64_t common_step, const ClusterMaker& make_cluster,
                                         Screen& screen) {
  screen.Say(
      absl::StrCat("2. The same job undisturbed, with 1 worker, up to step ", common_step, ".\n"));
  spec.runtime.workers_min = 1;
  spec.runtime.workers_max = 1;
  const JobResult result =
      RunJob({.spec = spec, .folder = folder + "/undisturbed", .cancel_after = common_step},
             make_cluster, screen);
  screen.Finish();
  MUSTER_RETURN_IF_ERROR(result.error);
  if (result.job.state == "done" || result.job.state == "cancelled") return result;
  return NotDone("undisturbed", result.job);
}

absl::StatusOr<bool> RunDemo(const DemoArguments& arguments, const ClusterMaker& make_cluster,
                             Screen& screen) {
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ReadDemoSpec(arguments));
  const std::string folder =
      arguments.dir.empty() ? FreshFolder(spec.runtime.name + "-demo") : arguments.dir;
  MUSTER_ASSIGN_OR_RETURN(const JobResult disturbed,
                          RunDisturbed(spec, folder, make_cluster, screen));
  const int64_t common =
      FirstFingerprintAfter(disturbed.fingerprints, disturbed.last_disturbed_step);
  if (common < 0)
    return absl::UnavailableError(absl::StrCat(
        "no fingerprint after step ", disturbed.last_disturbed_step,
        ", where the last recovery was: give the job more steps, or a smaller fingerprint_every"));
  MUSTER_ASSIGN_OR_RETURN(const JobResult undisturbed,
                          RunUndisturbed(spec, folder, common, make_cluster, screen));
  const Comparison comparison = Compare(disturbed, undisturbed, common);
  screen.Say("");
  screen.Say(comparison.text);
  return comparison.equal;
}

}  // namespace

int Demo(const DemoArguments& arguments, const ClusterMaker& make_cluster,
         const Terminal& terminal) {
  Screen screen(terminal, /*json=*/false);
  const absl::StatusOr<bool> equal = RunDemo(arguments, make_cluster, screen);
  if (equal.ok()) return *equal ? 0 : 1;
  terminal.err << "muster: " << PrintableLines(equal.status().message()) << std::endl;
  return ExitCodeOf(equal.status());
}

}  // namespace muster::cli
