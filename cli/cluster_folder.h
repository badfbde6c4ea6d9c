// The folder of a cluster on this machine, as the commands look into it from outside
// (docs/operations.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::cli {

// What the processes of a job printed.
std::string LogFolder(const std::string& cluster, const std::string& job);

// The history of a job, one line of JSON for each step.
std::string HistoryFileOf(const std::string& cluster, const std::string& job);

// Where its coordinator answers, "http://127.0.0.1:8080", or "https://127.0.0.1:8080" where the
// folder holds an authority; empty: the folder does not say.
std::string UrlOfCluster(const std::string& cluster);

// The file of whom members of that cluster trust; empty: there is none.
std::string AuthorityFileIn(const std::string& cluster);

// kPermissionDenied: this user may not look where whom to trust lies, if it is there.
absl::Status CheckMayLook(const std::string& cluster);

// Where other hosts join it, empty: they do not. And the file with the secret that they need.
std::string JoinAddressOf(const std::string& cluster);
std::string JoinSecretFileOf(const std::string& cluster);

// kInvalidArgument: --dir names no folder, so nothing can be there; kPermissionDenied: nobody can
// tell this user.
absl::Status CheckIsFolder(const std::string& dir);

// kDataLoss: something else lies in the place of a file that the commands read, which is named.
absl::Status CheckFilesOf(const std::string& cluster);

// A `muster` holds the folder now: something runs there, or is about to.
bool IsInUse(const std::string& cluster);

// It is the folder of a muster train, which has one job and ends with it.
bool IsOfTrain(const std::string& cluster);

// The id of the only job that has files there: one that was cancelled in the queue has none.
// kNotFound: no such folder, or no job in it; kInvalidArgument: it holds several, which are named.
absl::StatusOr<std::string> OnlyJobIn(const std::string& cluster);
// The same of these jobs, which somebody else has listed.
absl::StatusOr<std::string> OnlyOneOf(std::vector<std::string> jobs, const std::string& cluster);

// Where the checkpoints of a job lie, which are those of muster train or muster up. kNotFound:
// there is no such job, and those that are there are named, or it has none.
absl::StatusOr<std::string> CheckpointsIn(const std::string& cluster, const std::string& job);

// Removes what the processes of a job left there: logs, lane counts, its history. Nothing there is
// no error, and what belongs to another job of that id stays.
absl::Status RemoveJobFolder(const std::string& cluster, const std::string& job,
                             int64_t first_start);

// kInvalidArgument: this cannot be the id of a job, as the coordinator says it, too.
absl::Status CheckJobId(const std::string& job);

}  // namespace muster::cli
