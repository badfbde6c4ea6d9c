#include "cli/delete.h"

#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/json_text.h"
#include "cli/tokens.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/time.h"

namespace muster::cli {
namespace {

constexpr int kLooks = 600;
constexpr Duration kPause = std::chrono::milliseconds(100);

// The coordinator refuses it, too; people are told before they are asked.
absl::Status CheckOver(const JobAnswer& job) {
  if (IsOver(job)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id, " is ", job.state, ": end it first, with muster cancel ", job.id,
                   " or muster stop ", job.id, ", then delete it"));
}

absl::StatusOr<bool> Confirm(const RemoteArguments& arguments, const JobAnswer& job,
                             const Asker& ask) {
  if (arguments.yes) return true;
  const std::optional<bool> answer =
      ask ? ask(absl::StrCat("Delete job ", job.id, " with its ",
                             Plural(job.checkpoints, "checkpoint"), "? [y/N] "))
          : std::nullopt;
  if (answer) return *answer;
  return absl::InvalidArgumentError(
      absl::StrCat("job ", job.id,
                   " is not deleted: the input is not a terminal, so nobody can be "
                   "asked; --yes deletes without asking"));
}

// Once nothing is left of a job, its id may be taken again. Until then it is being deleted, so one
// that is not is another job.
bool IsAnother(const JobAnswer& seen, const JobAnswer& deleted) {
  return !seen.deleting || seen.first_start != deleted.first_start;
}

// What is kept of a large job takes a while to remove.
absl::Status AwaitGone(const JobAnswer& deleted, const RestClient& rest) {
  for (int look = 0; look < kLooks; ++look) {
    const absl::StatusOr<JobAnswer> job = rest.Job(deleted.id);
    if (absl::IsNotFound(job.status())) return absl::OkStatus();
    if (!job.ok() && !IsPassing(job.status())) return job.status();
    if (job.ok() && IsAnother(*job, deleted)) return absl::OkStatus();
    // The coordinator says of one that it could not delete why.
    if (job.ok() && absl::StartsWith(job->reason, "could not be deleted"))
      return absl::UnavailableError(absl::StrCat("job ", deleted.id, " ", job->reason));
    std::this_thread::sleep_for(kPause);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("job ", deleted.id, " is still being deleted; the coordinator goes on with it"));
}

// Logs lie with the agent. One cluster has several addresses (localhost, 127.0.0.1, a tunnel), so
// these are not compared: the folder is that of the cluster of --to where its own coordinator, too,
// knew the job before the deletion and knows it no more after that.
class FolderOfCluster {
 public:
  FolderOfCluster(const RemoteArguments& arguments, const JobAnswer& job)
      : rest_(UrlOfCluster(arguments.dir), arguments.token, TrustIn(arguments.dir)),
        knew_job_(CheckMayAsk(arguments, UrlOfCluster(arguments.dir)).ok() && Knows(job)) {}

  bool IsOfTheClusterOf(const JobAnswer& deleted) const {
    if (!knew_job_) return false;
    const absl::StatusOr<JobAnswer> seen = rest_.Job(deleted.id);
    return seen.ok() ? seen->first_start != deleted.first_start : absl::IsNotFound(seen.status());
  }

 private:
  bool Knows(const JobAnswer& job) const {
    const absl::StatusOr<JobAnswer> seen = rest_.Job(job.id);
    return seen.ok() && seen->first_start == job.first_start;
  }

  const RestClient rest_;
  const bool knew_job_;
};

}  // namespace

absl::StatusOr<int> Delete(const RemoteArguments& arguments, const RestClient& rest,
                           const Asker& ask, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Job(arguments.job));
  MUSTER_RETURN_IF_ERROR(CheckOver(job));
  const FolderOfCluster folder(arguments, job);
  MUSTER_ASSIGN_OR_RETURN(const bool wanted, Confirm(arguments, job, ask));
  if (!wanted) {
    out << "job " << Printable(job.id) << " is kept" << std::endl;
    return kExitStopped;
  }
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer deleted, rest.Delete(job.id));
  MUSTER_RETURN_IF_ERROR(AwaitGone(deleted, rest));
  const bool is_here = folder.IsOfTheClusterOf(deleted);
  if (is_here)
    MUSTER_RETURN_IF_ERROR(RemoveJobFolder(arguments.dir, deleted.id, deleted.first_start));
  if (arguments.json) {
    out << Text(nlohmann::ordered_json({{"id", job.id},
                                        {"deleted", true},
                                        {"checkpoints", job.checkpoints},
                                        {"logs_deleted", is_here}}))
        << std::endl;
    return kExitDone;
  }
  out << "job " << Printable(job.id) << " is deleted, with its "
      << Plural(job.checkpoints, "checkpoint")
      << (is_here ? " and its logs"
                  : "; its logs stay where the cluster runs (--dir names its folder)")
      << std::endl;
  return kExitDone;
}

}  // namespace muster::cli
