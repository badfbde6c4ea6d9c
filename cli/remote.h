// The commands that talk to a cluster through REST: submit, status, watch, stop, resume, cancel,
// delete, list, logs, digest, audit, ledger, history, plot, and those of cli/hosts.h. Some of them
// take the folder of a run in place of a cluster, and then work where nothing runs, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/delete.h"
#include "cli/rest_client.h"
#include "cli/screen.h"

namespace muster::cli {

// What answers for the folder of a run in which nothing runs
// (coordinator/service/folder_answers.h).
using FolderOpener = std::function<absl::StatusOr<Exchange>(const std::string& folder)>;

// Fills in what a command shows of who asks, and whom it trusts, for the folder that it names.
using ShowsFinder = std::function<absl::Status(RemoteArguments& arguments)>;

// `find_what_it_shows` is asked for each folder of a command that names several. Exit code: 0, 64
// (bad configuration), 65 (bad data, or an audit that failed), 1; of watch, and of submit and
// resume where the job is over, the job's: 67 when a person stopped or cancelled it.
int Remote(const RemoteArguments& arguments, const Terminal& terminal, const Asker& ask = nullptr,
           const FolderOpener& open_folder = nullptr,
           const ShowsFinder& find_what_it_shows = nullptr);

// What list and status print.
std::string JobTable(const std::vector<JobAnswer>& jobs, bool with_head = true);
std::string JobText(const JobAnswer& job);
// What digest, audit and ledger print.
std::string DigestText(const DigestAnswer& digest);
std::string AuditText(const AuditAnswer& audit);
std::string LedgerText(const LedgerStepAnswer& step);
// What history prints: the head, and a line for each step; as JSON it is HistoryLine. `measures`
// have columns of their own: "validation.loss".
std::string HistoryHead(bool csv, const std::vector<std::string>& measures = {});
std::string HistoryText(const HistoryStep& step, bool csv,
                        const std::vector<std::string>& measures = {});

}  // namespace muster::cli
