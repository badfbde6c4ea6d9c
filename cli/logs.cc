#include "cli/logs.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/job_logs.h"
#include "cli/json_text.h"
#include "lib/base/exit_codes.h"
#include "lib/base/status.h"
#include "lib/base/time.h"

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

absl::Status CheckMembers(const RemoteArguments& arguments, const std::string& folder,
                          const std::vector<std::string>& members) {
  if (members.empty())
    return absl::NotFoundError(
        absl::StrCat("there are no logs of a job ", arguments.job, " in ", folder,
                     ": it has not been started there, or --dir is not the cluster's folder"));
  const bool is_there =
      std::find(members.begin(), members.end(), arguments.member) != members.end();
  if (arguments.member.empty() || is_there) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("job ", arguments.job, " has no log of a member ",
                                          arguments.member, "; there are logs of ",
                                          absl::StrJoin(members, ", ")));
}

absl::StatusOr<int> Follow(const RemoteArguments& arguments, const RestClient& rest, JobLogs& logs,
                           std::ostream& out) {
  const Printer print(arguments, out);
  int quiet = 0;
  int unanswered = 0;
  for (bool over = false; quiet < kQuietLooks;) {
    const int64_t lines = logs.Read(/*ends=*/false, print);
    out.flush();
    quiet = over && lines == 0 ? quiet + 1 : 0;
    const absl::StatusOr<JobStatus> job = rest.Job(arguments.job);
    if (!job.ok() && !IsPassing(job.status())) return job.status();
    unanswered = job.ok() ? 0 : unanswered + 1;
    if (unanswered > kLooksWithoutAnswer)
      return absl::UnavailableError("the coordinator does not answer any more");
    if (job.ok()) over = IsOver(*job);
    std::this_thread::sleep_for(kLook);
  }
  logs.Read(/*ends=*/true, print);
  out.flush();
  return kExitDone;
}

}  // namespace

absl::StatusOr<int> Logs(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(arguments.job));
  const std::string folder = LogFolder(arguments.dir, arguments.job);
  JobLogs logs(folder, arguments.member);
  if (arguments.follow) {
    MUSTER_RETURN_IF_ERROR(rest.Job(arguments.job).status());
    return Follow(arguments, rest, logs, out);
  }
  MUSTER_RETURN_IF_ERROR(CheckMembers(arguments, folder, logs.Members()));
  logs.Read(/*ends=*/true, Printer(arguments, out));
  out.flush();
  return kExitDone;
}

}  // namespace muster::cli
