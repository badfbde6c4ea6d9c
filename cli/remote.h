// The commands that talk to a cluster through REST: submit, status, watch, stop, resume, cancel,
// delete, list, logs, digest, audit.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/delete.h"
#include "cli/rest_client.h"
#include "cli/screen.h"

namespace muster::cli {

// Exit code: 0, 64 (bad configuration), 65 (bad data, or an audit that failed), 1; of watch, and of
// submit and resume where the job is over, the job's: 67 when a person stopped or cancelled it.
int Remote(const RemoteArguments& arguments, const Terminal& terminal, const Asker& ask = nullptr);

// What list and status print.
std::string JobTable(const std::vector<JobAnswer>& jobs, bool with_head = true);
std::string JobText(const JobAnswer& job);

}  // namespace muster::cli
