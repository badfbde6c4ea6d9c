// The commands that talk to a cluster through REST: submit, status, watch, cancel, list, digest,
// audit.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/rest.h"

namespace muster::cli {

// Exit code: 0, 64 (bad configuration), 65 (bad data, or an audit that failed), 75 (watch: stopped,
// can go on), 1.
int Remote(const RemoteArguments& arguments, std::ostream& out, std::ostream& err);

// What list and status print.
std::string JobTable(const std::vector<JobStatus>& jobs);
std::string JobText(const JobStatus& job);

}  // namespace muster::cli
