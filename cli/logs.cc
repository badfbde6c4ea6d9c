#include "cli/logs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/job_logs.h"
#include "cli/json_text.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/domain/view.h"
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

// Which of the lines are printed: of each member its last ones, and none that is too old. A line
// without a time is as old as the line before it of its member.
class Chosen {
 public:
  Chosen(double since, std::map<std::string, int64_t> skip)
      : oldest_(since > 0
                    ? absl::FormatTime("%Y-%m-%dT%H:%M:%E3S", absl::Now() - absl::Seconds(since),
                                       absl::UTCTimeZone())
                    : ""),
        skip_(std::move(skip)) {}

  bool operator()(const std::string& member, const std::string& text) {
    if (const auto skip = skip_.find(member); skip != skip_.end() && skip->second-- > 0)
      return false;
    if (oldest_.empty() || begun_.count(member) > 0) return true;
    if (TimeOfLine(text) < oldest_) return false;
    begun_.insert(member);
    return true;
  }

 private:
  const std::string oldest_;  // its UTC time; empty: all
  std::map<std::string, int64_t> skip_;
  std::set<std::string> begun_;
};

// How many lines of each member come before its last ones, as its files are now.
std::map<std::string, int64_t> BeforeTail(const std::string& folder,
                                          const RemoteArguments& arguments) {
  std::map<std::string, int64_t> lines;
  if (arguments.tail == 0) return lines;
  JobLogs(folder, arguments.member)
      .Read(/*ends=*/!arguments.follow,
            [&](const std::string& member, const std::string&) { ++lines[member]; });
  for (auto& [member, count] : lines) count = std::max<int64_t>(0, count - arguments.tail);
  return lines;
}

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
  return (job.has_follower && member == kFollowerName) || (job.has_reader && member == kReaderName);
}

absl::Status CheckMayHave(const RemoteArguments& arguments, const JobAnswer& job) {
  if (arguments.member.empty() || MayHave(job, arguments.member)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "job ", job.id, " has no member ", arguments.member, "; it asks for at most ",
      Plural(job.most_workers, "worker"), " (worker-0, worker-1, …) and ",
      Plural(job.servers, "server"), " (server-0, …)", job.has_follower ? ", and follower-0" : "",
      job.has_reader ? ", and reader-0" : ""));
}

// For a job that is not over: a log that is not there yet may still come. It never comes of a
// process that the job does not have, nor in this folder when members have joined already, since
// they log before they join.
absl::Status CheckComing(const RemoteArguments& arguments, const std::string& folder,
                         const JobAnswer& job, const std::vector<std::string>& members) {
  if (!Contains(members, arguments.member)) MUSTER_RETURN_IF_ERROR(CheckMayHave(arguments, job));
  if (members.empty() && !job.members.empty()) return NoLogsError(job.id, folder);
  return absl::OkStatus();
}

absl::StatusOr<int> Follow(const RemoteArguments& arguments, const RestClient& rest,
                           const std::string& folder, JobLogs& logs, const JobLogs::OnLine& print,
                           std::ostream& out) {
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

using Lines = std::vector<std::pair<std::string, std::string>>;  // member and text

// In the order of the lines' times. A line without one follows the line before it of its member.
void PrintInOrder(const Lines& lines, const JobLogs::OnLine& print) {
  struct Line {
    std::string time;
    const std::pair<std::string, std::string>* line;
  };
  std::vector<Line> ordered;
  for (const auto& line : lines) {
    std::string time = TimeOfLine(line.second);
    if (!ordered.empty() && ordered.back().line->first == line.first)
      time = std::max(time, ordered.back().time);
    ordered.push_back({std::move(time), &line});
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Line& a, const Line& b) { return a.time < b.time; });
  for (const Line& line : ordered) print(line.line->first, line.line->second);
}

absl::Status NothingKept(const std::string& job) {
  return absl::NotFoundError(
      absl::StrCat("the coordinator keeps no lines of job ", job,
                   ": none of its members has printed any on a host that told them"));
}

// Also those that are empty, as where files are read.
std::vector<absl::string_view> LinesOf(absl::string_view text) {
  if (text.empty()) return {};
  absl::ConsumeSuffix(&text, "\n");
  return absl::StrSplit(text, '\n');
}

// What the coordinator keeps.
absl::StatusOr<int> PrintKept(const RemoteArguments& arguments, const std::string& text,
                              const JobLogs::OnLine& print, std::ostream& out) {
  Lines lines;
  for (const absl::string_view line : LinesOf(text)) {
    std::pair<absl::string_view, absl::string_view> parts = {arguments.member, line};
    if (arguments.member.empty()) parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    lines.emplace_back(parts.first, parts.second);
  }
  if (lines.empty()) return NothingKept(arguments.job);
  PrintInOrder(lines, print);
  out.flush();
  return kExitDone;
}

// Of all hosts: the coordinator says what comes after what it has said, and where that ends. So
// nothing is lost or comes twice when it is away meanwhile.
absl::StatusOr<int> FollowKept(const RemoteArguments& arguments, const RestClient& rest,
                               const JobLogs::OnLine& print, std::ostream& out) {
  bool is_empty = true;
  std::string after;
  for (int unanswered = 0; out;) {
    const absl::StatusOr<LogPageAnswer> page =
        rest.FollowLogs(arguments.job, arguments.member, arguments.tail, after);
    if (!page.ok()) {
      if (!IsPassing(page.status())) return page.status();
      if (++unanswered > kLooksWithoutAnswer)
        return absl::UnavailableError("the coordinator does not answer any more");
      std::this_thread::sleep_for(kLook);
      continue;
    }
    unanswered = 0;
    is_empty &= page->lines.empty();
    PrintInOrder(page->lines, print);
    out.flush();
    if (page->over) break;
    after = page->next;
  }
  if (is_empty) return NothingKept(arguments.job);
  return kExitDone;
}

}  // namespace

absl::StatusOr<int> Logs(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out) {
  const std::string folder = LogFolder(arguments.dir, arguments.job);
  JobLogs logs(folder, arguments.member);
  const bool of_all_hosts = !arguments.has_dir && (arguments.has_to || logs.Members().empty());
  // The coordinator leaves out itself what is before the tail.
  Chosen chosen(arguments.since,
                of_all_hosts ? std::map<std::string, int64_t>() : BeforeTail(folder, arguments));
  const Printer printer(arguments, out);
  const JobLogs::OnLine print = [&](const std::string& member, const std::string& text) {
    if (chosen(member, text)) printer(member, text);
  };
  if (arguments.follow) {
    MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Job(arguments.job));
    if (!of_all_hosts) return Follow(arguments, rest, folder, logs, print, out);
    if (!IsOver(job)) MUSTER_RETURN_IF_ERROR(CheckMayHave(arguments, job));
    return FollowKept(arguments, rest, print, out);
  }
  if (of_all_hosts) {
    const absl::StatusOr<std::string> kept =
        rest.Logs(arguments.job, arguments.member, arguments.tail);
    if (kept.ok()) return PrintKept(arguments, *kept, print, out);
    const bool is_away = absl::IsUnavailable(kept.status()) && http::NobodyListens(kept.status());
    if (arguments.has_to || !is_away) return kept.status();
  }
  MUSTER_RETURN_IF_ERROR(CheckMembers(arguments, folder, logs.Members()));
  logs.Read(/*ends=*/true, print);
  out.flush();
  MUSTER_RETURN_IF_ERROR(logs.status());
  return kExitDone;
}

}  // namespace muster::cli
