// The first bytes of a client of TLS, which any port of TLS answers with a byte at least: for one
// who asks only whether somebody listens.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster {

absl::StatusOr<std::string> TlsGreeting();

}  // namespace muster
