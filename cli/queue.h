// The commands about the queue: what it knows of a job, and how much namespaces may hold.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"

namespace muster::cli {

absl::StatusOr<int> SetQueue(const RemoteArguments& arguments, const RestClient& rest,
                             std::ostream& out);
// Shows the namespaces, or that one, or sets its quota.
absl::StatusOr<int> Quota(const RemoteArguments& arguments, const RestClient& rest,
                          std::ostream& out);

// What is sent for the options that were given, as JSON. kInvalidArgument: none was, or a label is
// not KEY=VALUE.
absl::StatusOr<std::string> QueueChangeOf(const RemoteArguments& arguments);
// What quota prints.
std::string NamespaceTable(const std::vector<NamespaceAnswer>& namespaces);

}  // namespace muster::cli
