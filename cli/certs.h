// `muster certs`: an authority that is made before its cluster, what an identity folder holds, and
// the certificate of a user.
#pragma once

#include <ostream>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"

namespace muster::cli {

// The exit code.
absl::StatusOr<int> Certs(const CertsArguments& arguments, absl::Time now, std::ostream& out);
// `muster certs user`: asks the coordinator, where that is so for a token first.
absl::StatusOr<int> CertifyUser(const RemoteArguments& arguments, const RestClient& rest,
                                std::ostream& out);

}  // namespace muster::cli
