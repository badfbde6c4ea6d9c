#include "lib/base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {
namespace {

// IPv4 addresses are kept as ::ffff:a.b.c.d, so that one comparison serves both families.
using IpBytes = std::array<uint8_t, 16>;
constexpr IpBytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
constexpr int kMappedBits = 96;

struct Network {
  IpBytes base{};
  int bits = 0;  // of the 128
};

std::optional<IpBytes> ParseIp(const std::string& text) {
  IpBytes ip = kMapped;
  if (in_addr v4; inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    std::memcpy(ip.data() + 12, &v4, 4);
    return ip;
  }
  if (in6_addr v6; inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    std::memcpy(ip.data(), &v6, 16);
    return ip;
  }
  return std::nullopt;
}

bool Contains(const Network& network, const IpBytes& ip) {
  for (int bit = 0; bit < network.bits; bit += 8) {
    const int rest = std::min(8, network.bits - bit);
    const auto mask = static_cast<uint8_t>(0xff << (8 - rest));
    if ((network.base[bit / 8] ^ ip[bit / 8]) & mask) return false;
  }
  return true;
}

absl::StatusOr<Network> ParseCidr(const std::string& text) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--allow-plaintext: \"", text, "\" ", why,
                     "; write a network like 10.231.0.0/24 or fd00::/8"));
  };
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return bad("has no prefix length");
  const std::string host = text.substr(0, slash);
  const std::optional<IpBytes> ip = ParseIp(host);
  if (!ip) return bad("does not begin with a numeric address");
  const bool v4 = host.find(':') == std::string::npos;
  const std::string digits = text.substr(slash + 1);
  int bits = 0;
  const bool plain = digits.find_first_not_of("0123456789") == std::string::npos;
  if (!plain || !absl::SimpleAtoi(digits, &bits) || bits > (v4 ? 32 : 128)) {
    return bad("has a wrong prefix length");
  }
  return Network{*ip, v4 ? kMappedBits + bits : bits};
}

bool IsLoopbackIp(const IpBytes& ip) {
  static constexpr IpBytes kV6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  Network v4{kMapped, kMappedBits + 8};
  v4.base[12] = 127;
  return ip == kV6 || Contains(v4, ip);
}

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost") return true;
  const std::optional<IpBytes> ip = ParseIp(host);
  return ip && IsLoopbackIp(*ip);
}

absl::Status Refuse(absl::string_view address, absl::string_view why,
                    absl::string_view what_to_do) {
  return absl::FailedPreconditionError(
      absl::StrCat("address ", address,
                   " refused: there are no certificates, so traffic would be in plain text, and ",
                   why, "; ", what_to_do));
}

absl::Status CheckNamespaces(absl::string_view address, const NetworkNamespaces& environment) {
  constexpr absl::string_view kWhatToDo =
      "use 127.0.0.1, or run in a network namespace of its own (ip netns exec, or a container)";
  if (!environment.ours || !environment.process_one) {
    return Refuse(
        address, "our network namespace cannot be compared with that of process 1 (/proc/1/ns/net)",
        kWhatToDo);
  }
  if (*environment.ours == *environment.process_one) {
    return Refuse(address, "our network namespace is that of process 1, the machine's own",
                  kWhatToDo);
  }
  return absl::OkStatus();
}

std::optional<std::string> ReadLink(const char* path) {
  std::array<char, PATH_MAX> buffer;
  const ssize_t n = readlink(path, buffer.data(), buffer.size());
  if (n <= 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<size_t>(n));
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view address) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", address, "\" ", why,
                     "; write host:port, for example 127.0.0.1:0 or [::1]:8080"));
  };
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return bad("has no port");
  absl::string_view host = address.substr(0, colon);
  const absl::string_view digits = address.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad("has no host");
  if (!bracketed && host.find(':') != absl::string_view::npos)
    return bad("needs brackets around its IPv6 host");
  uint32_t port = 0;
  const bool plain = digits.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!plain || !absl::SimpleAtoi(digits, &port) || port > 65535) return bad("has a wrong port");
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

NetworkNamespaces ReadNetworkNamespaces() {
  return {ReadLink("/proc/self/ns/net"), ReadLink("/proc/1/ns/net")};
}

bool IsLoopbackAddress(absl::string_view address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() && IsLoopbackHost(parsed->host);
}

absl::Status CheckPlaintextAddress(absl::string_view address, const Credentials& credentials,
                                   const NetworkNamespaces& environment) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  std::vector<Network> networks;
  for (const std::string& cidr : credentials.allow_plaintext) {
    MUSTER_ASSIGN_OR_RETURN(networks.emplace_back(), ParseCidr(cidr));
  }
  if (IsLoopbackHost(parsed.host)) return absl::OkStatus();
  const std::optional<IpBytes> ip = ParseIp(parsed.host);
  if (!ip) return Refuse(address, "its host is a name", "write localhost or a numeric address");
  const bool named = std::any_of(networks.begin(), networks.end(),
                                 [&](const Network& network) { return Contains(network, *ip); });
  if (!named) {
    return Refuse(address, "it is neither loopback nor in a network given with --allow-plaintext",
                  "use 127.0.0.1, or name its network with --allow-plaintext CIDR");
  }
  return CheckNamespaces(address, environment);
}

std::string PlaintextWarning(absl::string_view address) {
  return absl::StrCat("UNPROTECTED: ", address,
                      " is not loopback and speaks plain text without certificates; anybody in "
                      "that network can read "
                      "and command it (allowed by --allow-plaintext)");
}

}  // namespace muster
