#include "lib/base/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"

namespace muster {

absl::StatusOr<SocketAddress> ToSocketAddress(const HostPort& at) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  const std::string host = at.host == "localhost" ? "127.0.0.1" : at.host;
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(at.port);
    address.size = sizeof *v4;
    return address;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(at.port);
    address.size = sizeof *v6;
    return address;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("address ", host, " is neither numeric nor localhost"));
}

absl::StatusOr<std::string> AddressTowards(const HostPort& peer) {
  MUSTER_ASSIGN_OR_RETURN(SocketAddress address, ToSocketAddress(peer));
  auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
  const Descriptor probe(socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // To connect a datagram socket only chooses the way.
  if (!probe.is_open() || connect(probe.get(), raw, address.size) != 0 ||
      getsockname(probe.get(), raw, &address.size) != 0)
    return absl::UnavailableError(
        absl::StrCat("no way leads to ", peer.host, ": ", std::strerror(errno)));
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_v4 = address.storage.ss_family == AF_INET;
  const void* bytes =
      is_v4 ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(raw)->sin_addr)
            : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(raw)->sin6_addr);
  inet_ntop(address.storage.ss_family, bytes, text.data(), text.size());
  return is_v4 ? std::string(text.data()) : absl::StrCat("[", text.data(), "]");
}

}  // namespace muster
