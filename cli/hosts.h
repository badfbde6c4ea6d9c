// The commands about hosts, and about how many workers a job has: hosts, drain, scale, top.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"
#include "cli/screen.h"

namespace muster::cli {

absl::StatusOr<int> Hosts(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out);
// Progress goes to `terminal.err`, so that the output of --json is the host alone.
absl::StatusOr<int> Drain(const RemoteArguments& arguments, const RestClient& rest,
                          const Terminal& terminal);
absl::StatusOr<int> Scale(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out);
// Until the output cannot be written, or the coordinator does not answer for a minute.
absl::StatusOr<int> Top(const RemoteArguments& arguments, const RestClient& rest,
                        const Terminal& terminal);

// Of all pages, which are asked for one by one.
absl::StatusOr<HostList> AllHosts(const RestClient& rest);

// What hosts prints.
// `revoked`: names of hosts that are none any more.
std::string HostTable(const std::vector<HostAnswer>& hosts, bool with_head = true,
                      const std::vector<std::string>& revoked = {});
// What top prints of jobs.
std::string TopJobs(const std::vector<JobAnswer>& jobs);

}  // namespace muster::cli
