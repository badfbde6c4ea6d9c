// May this address be spoken to without certificates? Loopback always; another address only where
// the user named its network and this process has a network of its own (a namespace other than that
// of process 1), so that an unprotected port is never opened on the machine's real network by
// accident.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/credentials.h"

namespace muster {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// "127.0.0.1:80", "[::1]:80", "localhost:80". kInvalidArgument: no host, no port or a port above
// 65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

// The identities of two network namespaces, as the links in /proc name them; nothing where they
// cannot be read.
struct NetworkNamespaces {
  std::optional<std::string> ours;
  std::optional<std::string> process_one;
};
NetworkNamespaces ReadNetworkNamespaces();

// 127.0.0.0/8, ::1 (also mapped into IPv6) and the name localhost. False for what does not parse.
bool IsLoopbackAddress(absl::string_view address);

// OK for loopback, and for a numeric address inside one of `credentials.allow_plaintext` where our
// network namespace is known to differ from that of process 1; whoever listens or connects then
// must log PlaintextWarning. kInvalidArgument: the address or a CIDR does not parse.
// kFailedPrecondition: refused; the message says why and what to do. Pure: names other than
// localhost are refused, not resolved.
absl::Status CheckPlaintextAddress(absl::string_view address, const Credentials& credentials,
                                   const NetworkNamespaces& environment);

// The line to log where CheckPlaintextAddress allowed an address that is not loopback.
std::string PlaintextWarning(absl::string_view address);

}  // namespace muster
