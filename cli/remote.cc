#include "cli/remote.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/job_file.h"
#include "cli/job_run.h"
#include "cli/json_text.h"
#include "cli/logs.h"
#include "cli/spec_file.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/http/client.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

using Command = RemoteArguments::Command;

// How long we wait for a coordinator that has answered before and does not answer now.
constexpr int kReconnects = 60;
constexpr Duration kReconnectPause = std::chrono::seconds(1);

// One answer about a job: for programs the job itself, for people a sentence.
int Say(const RemoteArguments& arguments, const JobStatus& job, const std::string& sentence,
        std::ostream& out) {
  out << (arguments.json ? job.json : sentence) << std::endl;
  return kExitDone;
}

absl::StatusOr<int> Submit(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, ReadSpec(arguments.spec, arguments.settings));
  const std::string id = arguments.job.empty() ? NewJobId(spec.runtime.name) : arguments.job;
  MUSTER_ASSIGN_OR_RETURN(const JobStatus job, rest.Submit(id, ToJson(spec)));
  return Say(arguments, job,
             absl::StrCat("job ", job.id, " is ", job.state, "; follow it with: muster watch ",
                          job.id, " --to ", arguments.to),
             out);
}

// Page by page, so that any number of jobs needs the memory of one page.
absl::StatusOr<int> List(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out) {
  std::string page_token;
  bool is_first = true;
  do {
    MUSTER_ASSIGN_OR_RETURN(const JobList page, rest.List(arguments.state, page_token));
    if (!arguments.json) out << JobTable(page.jobs, is_first) << std::flush;
    if (arguments.json)
      for (const JobStatus& job : page.jobs) out << job.json << std::endl;
    is_first = false;
    page_token = page.next_page_token;
  } while (!page_token.empty());
  return kExitDone;
}

absl::StatusOr<int> Status(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobStatus job, rest.Job(arguments.job));
  if (arguments.json)
    out << job.json << std::endl;
  else
    out << JobText(job) << std::flush;
  return 0;
}

void ShowEvent(const RemoteArguments& arguments, const JobEvent& event, std::ostream& out) {
  if (arguments.json) {
    nlohmann::ordered_json object = {{"event", event.name}};
    object.update(nlohmann::ordered_json::parse(event.json));
    out << Text(object) << std::endl;
  } else if (event.name != "step" && event.name != "fingerprint" && !event.text.empty()) {
    out << PrintableLines(event.text) << std::endl;
  }
}

// With --json the last line is the job itself: events of an earlier term of the coordinator are not
// kept, its "done" neither.
int ShowEnd(const RemoteArguments& arguments, const JobStatus& job, std::ostream& out) {
  if (arguments.json) {
    nlohmann::ordered_json object = {{"event", "job"}};
    object.update(nlohmann::ordered_json::parse(job.json));
    out << Text(object) << std::endl;
  } else {
    out << JobText(job) << std::flush;
  }
  return static_cast<int>(job.exit_code);
}

// The job is looked at before each stream: one that is over may send no event any more.
absl::StatusOr<int> Watch(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(rest.Job(arguments.job).status());
  std::string last_id;
  int failures = 0;
  while (true) {
    const absl::StatusOr<JobStatus> now = rest.Job(arguments.job);
    if (now.ok() && IsOver(*now)) return ShowEnd(arguments, *now, out);
    const absl::Status followed = rest.Follow(arguments.job, last_id, [&](const JobEvent& event) {
      last_id = event.id;
      failures = 0;
      ShowEvent(arguments, event, out);
      return event.name != "done";
    });
    if (followed.ok()) continue;
    if (!IsPassing(followed)) return followed;
    if (++failures > kReconnects)
      return absl::UnavailableError("the coordinator does not answer any more");
    std::this_thread::sleep_for(kReconnectPause);
  }
}

absl::StatusOr<int> Stop(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobStatus job, rest.Stop(arguments.job));
  const bool was_over = IsOver(job) && job.state != "stopped";
  const std::string sentence =
      was_over
          ? absl::StrCat("job ", job.id, " is ", job.state, " already; there is nothing to stop")
      : IsOver(job) ? absl::StrCat("job ", job.id, " is stopped; the same job submitted with --id ",
                                   job.id, " goes on")
                    : absl::StrCat("job ", job.id,
                                   " stops after a checkpoint; the same job submitted with --id ",
                                   job.id, " goes on then");
  return Say(arguments, job, sentence, out);
}

absl::StatusOr<int> Cancel(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobStatus job, rest.Cancel(arguments.job));
  const bool cancelled = job.state == "cancelled" || !IsOver(job);
  Say(arguments, job,
      absl::StrCat("job ", job.id, " is ", job.state,
                   cancelled ? "" : ", and is not cancelled: it was over before"),
      out);
  return cancelled ? kExitDone : kExitFailed;
}

absl::StatusOr<int> Digest(const RemoteArguments& arguments, const RestClient& rest,
                           std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const std::string digest, rest.Digest(arguments.job));
  out << digest << std::endl;
  return 0;
}

absl::StatusOr<int> Audit(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const std::string audit, rest.Audit(arguments.job));
  out << audit << std::endl;
  const auto object = nlohmann::json::parse(audit, nullptr, /*allow_exceptions=*/false);
  const bool proven = object.is_object() && object.contains("ok") && object["ok"] == true;
  return proven ? kExitDone : kExitBadData;
}

absl::StatusOr<int> Run(const RemoteArguments& arguments, const RestClient& rest, std::ostream& out,
                        const Asker& ask) {
  const bool names_a_job = arguments.command != Command::kList &&
                           !(arguments.command == Command::kSubmit && arguments.job.empty());
  if (names_a_job) MUSTER_RETURN_IF_ERROR(CheckJobId(arguments.job));
  switch (arguments.command) {
    case Command::kSubmit: return Submit(arguments, rest, out);
    case Command::kStatus: return Status(arguments, rest, out);
    case Command::kWatch: return Watch(arguments, rest, out);
    case Command::kStop: return Stop(arguments, rest, out);
    case Command::kCancel: return Cancel(arguments, rest, out);
    case Command::kDelete: return Delete(arguments, rest, ask, out);
    case Command::kLogs: return Logs(arguments, rest, out);
    case Command::kList: return List(arguments, rest, out);
    case Command::kDigest: return Digest(arguments, rest, out);
    case Command::kAudit: return Audit(arguments, rest, out);
  }
  return absl::InternalError("unknown command");
}

}  // namespace

int Remote(const RemoteArguments& arguments, std::ostream& out, std::ostream& err,
           const Asker& ask) {
  const absl::StatusOr<int> code = Run(arguments, RestClient(arguments.to), out, ask);
  if (code.ok()) return *code;
  err << "muster: " << code.status().message() << std::endl;
  if (http::NobodyListens(code.status()))
    err << "Does a cluster run there? muster up starts one, and --to says where it is."
        << std::endl;
  return ExitCodeOf(code.status());
}

namespace {

// "epoch 1 of 2"; empty: it has not begun, or nobody knows yet how long one is.
std::string EpochText(const JobStatus& job) {
  if (job.steps == 0) return "";
  if (job.epochs == 0) return absl::StrCat(", epoch ", job.epoch + 1);
  // After the last step all of them are complete.
  return absl::StrCat(", epoch ", std::min(job.epoch + 1, job.epochs), " of ", job.epochs);
}

std::string StepText(const JobStatus& job) {
  return job.steps > 0 ? absl::StrCat(job.step, " of ", job.steps) : absl::StrCat(job.step);
}

// Whoever took part last is not there any more.
std::string WorkersText(const JobStatus& job) {
  return IsOver(job) || job.state == "queued" ? "-" : absl::StrCat(job.workers);
}

}  // namespace

std::string JobTable(const std::vector<JobStatus>& jobs, bool with_head) {
  if (jobs.empty()) return with_head ? "There are no jobs.\n" : "";
  size_t width = 3;
  for (const JobStatus& job : jobs) width = std::max(width, job.id.size());
  std::string text;
  if (with_head)
    absl::StrAppendFormat(&text, "%-*s  %-10s  %-15s  %-8s  %s\n", static_cast<int>(width), "job",
                          "state", "step", "loss", "workers");
  for (const JobStatus& job : jobs)
    absl::StrAppendFormat(&text, "%-*s  %-10s  %-15s  %-8s  %s\n", static_cast<int>(width), job.id,
                          job.state, StepText(job), Loss(job.loss), WorkersText(job));
  return text;
}

std::string JobText(const JobStatus& job) {
  std::string text = absl::StrCat("job ", job.id, " is ", job.state);
  if (!job.reason.empty()) absl::StrAppend(&text, ": ", PrintableLines(job.reason));
  absl::StrAppend(&text, "\n  step ", StepText(job), EpochText(job), ", ",
                  Plural(job.samples, "sample"), ", loss ", Loss(job.loss), ", ",
                  HowLong(job.seconds), "\n");
  absl::StrAppend(&text, "  view ", job.view, ", lineage ", job.lineage, "; ",
                  Plural(job.recoveries, "recovery", "recoveries"), ", ",
                  Plural(job.rewinds, "rewind"), ", ", Plural(job.lanes_recomputed, "lane"),
                  " computed again\n");
  if (job.checkpoint_step >= 0)
    absl::StrAppend(&text, "  newest checkpoint: step ", job.checkpoint_step, "\n");
  if (!job.fingerprint.empty())
    absl::StrAppend(&text, "  fingerprint ", job.fingerprint, " after step ", job.fingerprint_step,
                    "\n");
  if (!job.digest.empty()) absl::StrAppend(&text, "  digest ", job.digest, "\n");
  for (const MemberStatus& member : job.members) {
    absl::StrAppend(&text, "  ", Printable(member.name), " on ", Printable(member.node), ": ",
                    member.state, ", ", Plural(member.lanes, "lane"));
    if (!member.phase.empty()) absl::StrAppend(&text, ", ", Printable(member.phase));
    text += "\n";
  }
  return text;
}

}  // namespace muster::cli
