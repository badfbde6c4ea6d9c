// `muster logs`: what the members of a job printed.
#pragma once

#include <ostream>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"

namespace muster::cli {

// The exit code. With --follow it returns once the job is over and nothing more is printed.
absl::StatusOr<int> Logs(const RemoteArguments& arguments, const RestClient& rest,
                         std::ostream& out);

}  // namespace muster::cli
