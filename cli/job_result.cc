#include "cli/job_result.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/json_text.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

// The time is that of this run, and is said of what this run did.
std::string HowItEnded(const JobResult& result) {
  const std::string& state = result.job.state;
  if (result.was_over) return absl::StrCat(" was ", state, " before");
  const std::string time = HowLong(result.seconds);
  return result.steps_before > 0 ? absl::StrCat(" is ", state, ", ", time, " after it went on")
                                 : absl::StrCat(" is ", state, " after ", time);
}

}  // namespace

JobResult FailedResult(const absl::Status& error) {
  JobResult result;
  result.error = error;
  result.job.state = "failed";
  result.job.reason = std::string(error.message());
  result.job.loss = NAN;
  result.exit_code = ExitCodeOf(error);
  return result;
}

std::string ResultJson(const JobResult& result) {
  const JobAnswer& job = result.job;
  return Text(Json({{"event", "result"},
                    {"job", job.id},
                    {"state", job.state},
                    {"reason", job.reason},
                    {"steps", job.step},
                    {"epochs", job.epoch},
                    {"samples", job.samples},
                    {"first_loss", NumberOrNull(result.first_loss.value_or(NAN))},
                    {"final_loss", NumberOrNull(job.loss)},
                    {"digest", job.digest.empty() ? Json(nullptr) : Json(job.digest)},
                    {"fingerprint", job.fingerprint},
                    {"fingerprint_step", job.fingerprint_step},
                    {"seconds", result.seconds},
                    {"workers", job.workers},
                    {"views", job.views},
                    {"recoveries", job.recoveries},
                    {"rewinds", job.rewinds},
                    {"lanes_recomputed", job.lanes_recomputed},
                    {"sample", result.sample},
                    {"folder", result.folder},
                    {"exit_code", result.exit_code}}));
}

std::string ResultText(const JobResult& result) {
  const JobAnswer& job = result.job;
  std::string text =
      absl::StrCat("job ", job.id, HowItEnded(result), ": ", Plural(job.step, "step"),
                   result.steps_before > 0 ? " in all" : "", ", ", Plural(job.samples, "sample"),
                   ", ", Plural(job.workers, "worker"), "\n");
  if (!job.reason.empty() && job.reason != job.state)
    absl::StrAppend(&text, "  reason       ", job.reason, "\n");
  if (std::isfinite(job.loss)) {
    const std::string before =
        result.first_loss ? absl::StrCat(Loss(*result.first_loss), " at first, ") : "";
    absl::StrAppend(&text, "  loss         ", before, Loss(job.loss), " at last\n");
  }
  absl::StrAppend(&text, "  views        ", job.views, ", ",
                  Plural(job.recoveries, "recovery", "recoveries"), ", ",
                  Plural(job.rewinds, "rewind"), ", ", Plural(job.lanes_recomputed, "lane"),
                  " computed again\n");
  if (!job.fingerprint.empty())
    absl::StrAppend(&text, "  fingerprint  ", job.fingerprint, " after step ", job.fingerprint_step,
                    "\n");
  if (const std::string digest = DigestOf(job); !digest.empty())
    absl::StrAppend(&text, "  digest       ", digest, "\n");
  absl::StrAppend(&text, "  logs         ", LogFolder(result.folder, job.id), "\n");
  if (job.step > 0)  // the file is made with the first step
    absl::StrAppend(&text, "  history      ", HistoryFileOf(result.folder, job.id), "\n");
  absl::StrAppend(&text, "  checkpoints  ", result.folder, "/checkpoints\n", "  metrics      ",
                  result.folder, "/prometheus-targets.json (for Prometheus' file_sd_configs)\n");
  return text;
}

std::string CommandToMeasure(const JobResult& result, const std::vector<std::string>& plugins) {
  const JobAnswer& job = result.job;
  const bool is_saved = job.state == "done" && job.checkpoint_step == job.step;
  if (!result.error.ok() || !is_saved || job.validation_step == job.step) return "";
  std::string command =
      absl::StrCat("muster evaluate ", job.id, " --dir ", ShellWord(result.folder));
  for (const std::string& folder : plugins)
    absl::StrAppend(&command, " --plugins ", ShellWord(folder));
  return command;
}

}  // namespace muster::cli
