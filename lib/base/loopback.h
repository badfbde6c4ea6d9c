// May this address be spoken to without certificates? Loopback alone.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// "127.0.0.1:80", "[::1]:80", "localhost:80". kInvalidArgument: no host, no port or a port above
// 65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

// 127.0.0.0/8, ::1 (also mapped into IPv6) and the name localhost. False for what does not parse.
bool IsLoopbackAddress(absl::string_view address);

// OK for loopback. kInvalidArgument: it does not parse; kFailedPrecondition: refused; the message
// says why and what to do. Pure: names other than localhost are refused, not resolved.
absl::Status CheckPlaintextAddress(absl::string_view address);

}  // namespace muster
