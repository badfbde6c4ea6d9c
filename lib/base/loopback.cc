#include "lib/base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {
namespace {

// IPv4 addresses are kept as ::ffff:a.b.c.d, as they may come in either form.
using IpBytes = std::array<uint8_t, 16>;
constexpr IpBytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
constexpr size_t kMappedBytes = 12;

std::optional<IpBytes> ParseIp(const std::string& text) {
  IpBytes ip = kMapped;
  if (in_addr v4; inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    std::memcpy(ip.data() + kMappedBytes, &v4, 4);
    return ip;
  }
  if (in6_addr v6; inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    std::memcpy(ip.data(), &v6, 16);
    return ip;
  }
  return std::nullopt;
}

// 127.0.0.0/8, and ::1.
bool IsLoopbackIp(const IpBytes& ip) {
  static constexpr IpBytes kV6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return ip == kV6 || (std::equal(ip.begin(), ip.begin() + kMappedBytes, kMapped.begin()) &&
                       ip[kMappedBytes] == 127);
}

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost") return true;
  const std::optional<IpBytes> ip = ParseIp(host);
  return ip && IsLoopbackIp(*ip);
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

bool IsLoopbackAddress(absl::string_view address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() && IsLoopbackHost(parsed->host);
}

absl::Status CheckPlaintextAddress(absl::string_view address) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  if (IsLoopbackHost(parsed.host)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("address ", address,
                   " refused: it is not loopback, and without certificates only that is "
                   "spoken to; use 127.0.0.1, or TLS (--identity of programs, https:// of "
                   "commands)"));
}

}  // namespace muster
