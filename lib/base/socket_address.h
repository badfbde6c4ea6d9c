// Addresses as the system calls want them.
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"
#include "lib/base/loopback.h"

namespace muster {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// kInvalidArgument: the host is neither numeric nor localhost.
absl::StatusOr<SocketAddress> ToSocketAddress(const HostPort& at);

// The address of this host that those at `peer` see, without a port and as it is written before
// one: "10.0.0.7", "[fd00::7]". Nothing is sent. kUnavailable: no way leads there.
absl::StatusOr<std::string> AddressTowards(const HostPort& peer);

}  // namespace muster
