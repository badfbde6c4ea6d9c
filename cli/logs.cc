#include "cli/logs.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/job_logs.h"
#include "cli/json_text.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/http/client.h"

namespace muster::cli {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(250);
// Members print their last lines shortly after their job's end: we stop after so many looks at
// the files that found no new line.
constexpr int kQuietLooks = 4;
// A coordinator that is started again is waited for.
constexpr int kLooksWithoutAnswer = 240;

class Printer {
 public:
  Printer(const RemoteArguments& arguments, std::ostream& out) : arguments_(arguments), out_(out) {}

  void operator()(const std::string& member, const std::string& text) const {
    if (arguments_.json) {
      out_ << Text(nlohmann::ordered_json({{"member", member}, {"line", text}})) << "\n";
    } else if (arguments_.member.empty()) {
      out_ << Printable(member) << " | " << Printable(text) << "\n";
    } else {
      out_ << Printable(text) << "\n";
    }
  }

 private:
  const RemoteArguments& arguments_;
  std::ostream& out_;
};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status NoLogsError(const std::string& job, const std::string& folder) {
  return absl::NotFoundError(
      absl::StrCat("there are no logs of a job ", job, " in ", folder,
                   ". Logs are read from the folder of the cluster, on its machine: --dir names it "
                   "(the --dir of muster up, or of muster train); elsewhere --to names the "
                   "coordinator, which keeps the newest lines"));
}

absl::Status CheckMembers(const RemoteArguments& arguments, const std::string& folder,
                          const std::vector<std::string>& members) {
  if (members.empty()) return NoLogsError(arguments.job, folder);
  if (arguments.member.empty() || Contains(members, arguments.member)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("job ", arguments.job, " has no log of a member ",
                                          arguments.member, "; there are logs of ",
                                          absl::StrJoin(members, ", ")));
}

// The job may start such a process, now or later.
bool MayHave(const JobAnswer& job, const std::string& member) {
  if (job.most_workers == 0) return true;  // a coordinator that does not say
  for (int64_t i = 0; i < job.most_workers; ++i)
    if (member == absl::StrCat("worker-", i)) return true;
  for (int64_t i = 0; i < job.servers; ++i)
    if (member == absl::StrCat("server-", i)) return true;
  return false;
}

// For a job that is not over: a log that is not there yet may still come. It never comes of a
// process that the job does not have, nor in this folder when members have joined already, since
// they log before they join.
absl::Status CheckComing(const RemoteArguments& arguments, const std::string& folder,
                         const JobAnswer& job, const std::vector<std::string>& members) {
  const bool asks_for_one = !arguments.member.empty() && !Contains(members, arguments.member);
  if (asks_for_one && !MayHave(job, arguments.member))
    return absl::NotFoundError(
        absl::StrCat("job ", job.id, " has no member ", arguments.member, "; it asks for at most ",
                     Plural(job.most_workers, "worker"), " (worker-0, worker-1, …) and ",
                     Plural(job.servers, "server"), " (server-0, …)"));
  if (members.empty() && !job.members.empty()) return NoLogsError(job.id, folder);
  return absl::OkStatus();
}

absl::StatusOr<int> Follow(const RemoteArguments& arguments, const RestClient& rest,
                           const std::string& folder, JobLogs& logs, std::ostream& out) {
  const Printer print(arguments, out);
  int quiet = 0;
  int unanswered = 0;
  for (bool over = false; out && quiet < kQuietLooks;) {
    const int64_t lines = logs.Read(/*ends=*/false, print);
    out.flush();
    MUSTER_RETURN_IF_ERROR(logs.status());
    quiet = over && lines == 0 ? quiet + 1 : 0;
    const absl::StatusOr<JobAnswer> job = rest.Job(arguments.job);
    if (!job.ok() && !IsPassing(job.status())) return job.status();
    unanswered = job.ok() ? 0 : unanswered + 1;
    if (unanswered > kLooksWithoutAnswer)
      return absl::UnavailableError("the coordinator does not answer any more");
    if (job.ok()) over = IsOver(*job);
    if (job.ok() && !over)
      MUSTER_RETURN_IF_ERROR(CheckComing(arguments, folder, *job, logs.Members()));
    std::this_thread::sleep_for(kLook);
  }
  logs.Read(/*ends=*/true, print);
  out.flush();
  MUSTER_RETURN_IF_ERROR(logs.status());
  MUSTER_RETURN_IF_ERROR(CheckMembers(arguments, folder, logs.Members()));
  return kExitDone;
}

// What the coordinator keeps, in the order of the lines' times. A line without one follows the line
// before it of its member.
absl::StatusOr<int> PrintKept(const RemoteArguments& arguments, const std::string& text,
                              std::ostream& out) {
  struct Line {
    std::string time, member, text;
  };
  std::vector<Line> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::pair<absl::string_view, absl::string_view> parts = {arguments.member, line};
    if (arguments.member.empty()) parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    std::string time = TimeOfLine(parts.second);
    if (!lines.empty() && lines.back().member == parts.first)
      time = std::max(time, lines.back().time);
    lines.push_back({std::move(time), std::string(parts.first), std::string(parts.second)});
  }
  if (lines.empty())
    return absl::NotFoundError(
        absl::StrCat("the coordinator keeps no lines of job ", arguments.job,
                     ": none of its members has printed any on a host that told them"));
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.time < b.time; });
  const Printer print(arguments, out);
  for (const Line& line : lines) print(line.member, line.text);
  out.flush();
  return kExitDone;
}

}  // namespace

absl::StatusOr<int> Logs(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out) {
  const std::string folder = LogFolder(arguments.dir, arguments.job);
  JobLogs logs(folder, arguments.member);
  if (arguments.follow) {
    MUSTER_RETURN_IF_ERROR(rest.Job(arguments.job).status());
    return Follow(arguments, rest, folder, logs, out);
  }
  if (!arguments.has_dir && (arguments.has_to || logs.Members().empty())) {
    const absl::StatusOr<std::string> kept = rest.Logs(arguments.job, arguments.member);
    if (kept.ok()) return PrintKept(arguments, *kept, out);
    const bool is_away = absl::IsUnavailable(kept.status()) && http::NobodyListens(kept.status());
    if (arguments.has_to || !is_away) return kept.status();
  }
  MUSTER_RETURN_IF_ERROR(CheckMembers(arguments, folder, logs.Members()));
  logs.Read(/*ends=*/true, Printer(arguments, out));
  out.flush();
  MUSTER_RETURN_IF_ERROR(logs.status());
  return kExitDone;
}

}  // namespace muster::cli
