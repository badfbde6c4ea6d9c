#include "cli/cluster_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/file_lock.h"
#include "lib/base/own_folder.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/domain/job_id.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 10;
constexpr size_t kMostBytes = size_t{16} << 20;  // of a file with a specification in it

std::string JobFolder(const std::string& cluster, const std::string& job) {
  return absl::StrCat(cluster, "/jobs/", job);
}

// Which job of its id the folder belongs to (agent/runtime/run_folder.h).
std::optional<int64_t> FirstStartIn(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadWholeFile(folder + "/first_start");
  int64_t number = 0;
  if (text.ok() && absl::SimpleAtoi(*text, &number)) return number;
  return std::nullopt;
}

// A text of a JSON object in a file; empty: it is not there, or cannot be read.
std::string TextIn(const std::string& file, const char* name) {
  const std::string text = ReadWholeFile(file, kMostBytes).value_or("");
  const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_there = object.is_object() && object.contains(name) && object[name].is_string();
  return is_there ? object[name].get<std::string>() : "";
}

// Empty: it is no folder of a muster train.
std::string TrainJobIn(const std::string& cluster) {
  const std::string id = TextIn(cluster + "/job.json", "id");
  return IsJobId(id) ? id : "";
}

// The ids in the names of a folder's entries; none, where it is not there.
void AddJobsIn(const std::string& folder, std::set<std::string>& jobs) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (std::string id = it->path().filename().string(); IsJobId(id)) jobs.insert(std::move(id));
}

// "a, b and 3 more"
std::string NamesOf(const std::vector<std::string>& jobs) {
  const size_t more = jobs.size() > kMostNamed ? jobs.size() - kMostNamed : 0;
  return absl::StrCat(absl::StrJoin(jobs.begin(), jobs.end() - static_cast<ptrdiff_t>(more), ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

absl::Status NoJobIn(const std::string& cluster) {
  return absl::NotFoundError(absl::StrCat("there is no job in ", Cut(Printable(cluster)),
                                          ": --dir is the folder of muster train or muster up"));
}

absl::Status CannotRemove(const std::string& path, const std::error_code& error) {
  return absl::PermissionDeniedError(
      absl::StrCat("cannot remove ", path, ": ", error.message(), "; remove it by hand"));
}

// Of the cluster, or of one of its hosts.
absl::Status RemoveFrom(const std::string& folder_of_jobs, const std::string& job,
                        int64_t first_start) {
  const std::string folder = JobFolder(folder_of_jobs, job);
  if (FirstStartIn(folder) != first_start) return absl::OkStatus();
  // No job has an id like that, so whoever makes the folder meanwhile for the next job of the id
  // loses nothing.
  const std::string aside = absl::StrCat(folder_of_jobs, "/jobs/.deleted-", job, "-", first_start);
  std::error_code error;
  fs::rename(folder, aside, error);
  if (error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  if (error) return CannotRemove(folder, error);
  if (FirstStartIn(aside) != first_start) {  // the next job came between our look and the renaming
    fs::rename(aside, folder, error);
    return error ? CannotRemove(aside, error) : absl::OkStatus();
  }
  fs::remove_all(aside, error);
  if (error && error != std::errc::no_such_file_or_directory) return CannotRemove(aside, error);
  // What the next job of the id has there already, its coordinator writes again.
  const std::string run = absl::StrCat(folder_of_jobs, "/tensorboard/", job);
  fs::remove_all(run, error);
  if (error && error != std::errc::no_such_file_or_directory) return CannotRemove(run, error);
  return absl::OkStatus();
}

}  // namespace

std::string LogFolder(const std::string& cluster, const std::string& job) {
  return JobFolder(cluster, job) + "/logs";
}

std::string HistoryFileOf(const std::string& cluster, const std::string& job) {
  return JobFolder(cluster, job) + "/metrics.jsonl";
}

std::string UrlOfCluster(const std::string& cluster) {
  const std::string http = TextIn(cluster + "/cluster.json", "http");
  if (http.empty()) return "";
  return (AuthorityFileIn(cluster).empty() ? "http://" : "https://") + http;
}

// As lib/identity/identity_folder.h lays an identity out, ours or somebody else's; in a folder of
// muster up the coordinator's own is `store`.
std::string AuthorityFileIn(const std::string& cluster) {
  for (const char* place :
       {"/identity/current/authority.pem", "/identity/authority.pem",
        "/store/identity/current/authority.pem", "/store/identity/authority.pem"}) {
    std::error_code ignored;
    if (fs::exists(cluster + place, ignored)) return cluster + place;
  }
  return "";
}

absl::Status CheckMayLook(const std::string& cluster) {
  const std::string folder = cluster + "/store/identity";
  if (access((folder + "/current").c_str(), F_OK) == 0 || errno != EACCES) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(folder,
                   " may not be read by this user: give the command as the one who may, or "
                   "with --to, --authority and a token of your own (MUSTER_TOKEN_FILE)"));
}

std::string JoinAddressOf(const std::string& cluster) {
  return TextIn(cluster + "/cluster.json", "join");
}

// agent/runtime/own_identity.h puts it there.
std::string JoinSecretFileOf(const std::string& cluster) {
  return cluster + "/store/identity/join.secret";
}

absl::Status CheckIsFolder(const std::string& dir) {
  const std::string shown = Cut(Printable(dir));
  std::error_code error;
  const fs::file_status there = fs::status(dir, error);
  if (fs::is_directory(there)) return absl::OkStatus();
  if (error == std::errc::permission_denied)
    return absl::PermissionDeniedError(
        absl::StrCat("--dir: '", shown,
                     "' may not be looked at by this user: give the command as "
                     "the one who may"));
  if (error == std::errc::no_such_file_or_directory)
    return absl::InvalidArgumentError(absl::StrCat(
        "--dir: there is no folder '", shown, "'; name that of a muster train or a muster up"));
  return absl::InvalidArgumentError(absl::StrCat(
      "--dir: '", shown, "' is no folder; name that of a muster train or a muster up"));
}

absl::Status CheckFilesOf(const std::string& cluster) {
  for (const char* name : {kOwnFolderLock, "cluster.json", "job.json", "result.json"})
    MUSTER_RETURN_IF_ERROR(CheckRegularFile(absl::StrCat(cluster, "/", name)));
  return absl::OkStatus();
}

bool IsInUse(const std::string& cluster) {
  return IsFileLocked(absl::StrCat(cluster, "/", kOwnFolderLock));
}

bool IsOfTrain(const std::string& cluster) { return !TrainJobIn(cluster).empty(); }

absl::StatusOr<std::string> OnlyJobIn(const std::string& cluster) {
  if (std::string id = TrainJobIn(cluster); !id.empty()) return id;
  std::set<std::string> jobs;
  AddJobsIn(cluster + "/jobs", jobs);
  return OnlyOneOf({jobs.begin(), jobs.end()}, cluster);
}

absl::StatusOr<std::string> OnlyOneOf(std::vector<std::string> jobs, const std::string& cluster) {
  std::sort(jobs.begin(), jobs.end());
  if (jobs.size() == 1) return jobs[0];
  if (jobs.empty()) return NoJobIn(cluster);
  return absl::InvalidArgumentError(
      absl::StrCat(Cut(Printable(cluster)), " holds several jobs: say which of ", NamesOf(jobs)));
}

absl::StatusOr<std::string> CheckpointsIn(const std::string& cluster, const std::string& job) {
  std::string folder = absl::StrCat(cluster, "/checkpoints/", job);
  std::error_code error;
  // Whoever reads it says what else is wrong.
  if (fs::exists(folder, error) || error) return folder;
  std::set<std::string> jobs;
  for (const char* of : {"/jobs", "/checkpoints"}) AddJobsIn(cluster + of, jobs);
  if (jobs.empty()) return NoJobIn(cluster);
  const std::string shown = Cut(Printable(cluster));
  return absl::NotFoundError(jobs.contains(job)
                                 ? absl::StrCat("job ", job, " has no checkpoint in ", shown)
                                 : absl::StrCat("there is no job ", job, " in ", shown, "; there ",
                                                jobs.size() == 1 ? "is " : "are ",
                                                NamesOf({jobs.begin(), jobs.end()})));
}

absl::Status RemoveJobFolder(const std::string& cluster, const std::string& job,
                             int64_t first_start) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  absl::Status status = RemoveFrom(cluster, job, first_start);
  std::error_code error;
  for (fs::directory_iterator it(cluster + "/hosts", error);
       !error && it != fs::directory_iterator(); it.increment(error))
    status.Update(RemoveFrom(it->path().string(), job, first_start));
  return status;
}

absl::Status CheckJobId(const std::string& job) {
  if (IsJobId(job)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", Cut(Printable(job)),
                                                 "' is not the id of a job: an id is ", JobIdRule(),
                                                 "; muster list shows all jobs"));
}

}  // namespace muster::cli
