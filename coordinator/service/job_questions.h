// What is asked of jobs, answered from what is known of them and from the journal. The caller has
// the thread for it: those that take a stop_token read as much as the ledger or a checkpoint holds,
// and end with kCancelled once it is asked to stop.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/service/control_api.h"
#include "lib/checkpoint/manifest_file.h"

namespace muster::coordinator {

// What a caller is told of a job. It shares the specification with `known`, so that it costs little
// however large that is.
// Of a fork; nothing: it is none.
std::optional<ParentInfo> ParentOf(const JobSpec& spec);
JobInfo Describe(const KnownJobPtr& known, int64_t now_unix_ms);
JobInfo DescribeNow(const KnownJobPtr& known);

absl::StatusOr<JobPage> PageOf(const KnownJobs& jobs, const JobQuery& query);

absl::StatusOr<JobFingerprints> ReadFingerprints(const Journal& journal, const JobJournal& job,
                                                 Step from, const std::stop_token& stop);
absl::StatusOr<JobAudit> RunAudit(const Journal& journal, const JobStatus& status,
                                  const std::stop_token& stop);
// `root` as in DriverOptions.
absl::StatusOr<JobDigest> DigestOf(const Journal& journal, const std::string& root,
                                   const KnownJobPtr& known, std::optional<int64_t> step,
                                   const std::stop_token& stop);
// Sets what the query leaves to us, and refuses what is the name of no file of a checkpoint.
absl::Status CheckFileQuery(FileQuery& query);
absl::StatusOr<FilePart> ReadFilePart(const Journal& journal, const std::string& root,
                                      const JobStatus& status, const FileQuery& query);
// Its place, of the name that SavedCheckpoint has for it. kInvalidArgument, with `field`: it is no
// such name.
absl::StatusOr<CheckpointPlace> PlaceOfCheckpoint(const std::string& checkpoint,
                                                  const std::string& field = "checkpoint");
absl::StatusOr<SavedCheckpoints> ListCheckpoints(const Journal& journal, const std::string& root,
                                                 const JobStatus& status,
                                                 const std::string& page_token,
                                                 const std::stop_token& stop);
// One of them. kNotFound: it is not committed, or not any more.
absl::StatusOr<SavedCheckpoint> SavedAt(const Journal& journal, const std::string& root,
                                        const JobStatus& status, const CheckpointPlace& place);
// Errors as JobApi::KeepCheckpoint says.
absl::StatusOr<SavedCheckpoint> KeepCheckpoint(const Journal& journal, const std::string& root,
                                               const JobStatus& status,
                                               const CheckpointPlace& place,
                                               const std::string& name);
absl::Status CheckHistoryQuery(const HistoryQuery& query);
// Sets what the query leaves to us, and refuses what no query may have.
absl::Status CheckLedgerQuery(LedgerQuery& query);
absl::StatusOr<JobLedger> ReadLedger(const Journal& journal, const JobStatus& status,
                                     LedgerQuery query, const std::stop_token& stop);

absl::Status CheckLogQuery(LogQuery& query);
// `logs` as LogStore's folder.
absl::StatusOr<LogTail> ReadLogs(const std::string& logs, const std::string& job,
                                 const LogQuery& query);
absl::Status CheckFollowQuery(const FollowQuery& query);
// What there is after what was given. `ends`: no more is printed, so that a line without its end is
// given, too; `over` says then whether this is all.
absl::StatusOr<LogPage> ReadLogPage(const std::string& logs, const std::string& job,
                                    const FollowQuery& query, bool ends);

}  // namespace muster::coordinator
