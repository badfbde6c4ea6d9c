// `muster certs status`, `change` and `finish`: the authority of a cluster that runs
// (docs/identity.md section 7).
#pragma once

#include <ostream>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"

namespace muster::cli {

// The exit code.
absl::StatusOr<int> ShowOrChangeAuthority(const RemoteArguments& arguments, const RestClient& rest,
                                          std::ostream& out);

}  // namespace muster::cli
