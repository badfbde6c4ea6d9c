#include "lib/launch/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/digits.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

// Empty: of another family, or valid on one link only, which would have to be named with it.
std::string TextOf(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return "";
    inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

bool IsV6(const std::string& ip) { return ip.find(':') != std::string::npos; }

bool IsLoopback(const std::string& ip) { return IsLoopbackAddress(BeforePort(ip) + ":0"); }

// The bytes of a numeric address in the order of the network; empty: it is none.
std::string BytesOf(const std::string& ip) {
  std::array<char, 16> bytes{};
  const int family = IsV6(ip) ? AF_INET6 : AF_INET;
  if (inet_pton(family, ip.c_str(), bytes.data()) != 1) return "";
  return {bytes.data(), family == AF_INET6 ? size_t{16} : size_t{4}};
}

// Whether it is in a network as 10.0.0.0/8.
bool IsIn(const std::string& ip, const std::string& cidr) {
  const size_t slash = cidr.find('/');
  if (slash == std::string::npos) return false;
  const std::string own = BytesOf(ip);
  const std::string base = BytesOf(cidr.substr(0, slash));
  const std::string digits = cidr.substr(slash + 1);
  size_t bits = 0;
  if (digits.empty() || !ParseDigits(digits, &bits) || own.empty() || own.size() != base.size() ||
      bits > own.size() * 8)
    return false;
  for (size_t bit = 0; bit < bits; ++bit)
    if (((own[bit / 8] ^ base[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}

bool IsOn(const OwnAddress& own, const std::string& interface) {
  return interface == own.interface || IsIn(own.ip, interface);
}

std::string ListOf(const std::vector<OwnAddress>& own) {
  return absl::StrJoin(own, ", ", [](std::string* out, const OwnAddress& a) {
    absl::StrAppend(out, a.interface, " (", a.ip, ")");
  });
}

}  // namespace

std::vector<OwnAddress> OwnAddresses() {
  std::vector<OwnAddress> own;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return own;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const std::string ip = (at->ifa_flags & IFF_UP) != 0 ? TextOf(at->ifa_addr) : "";
    if (!ip.empty()) own.push_back({at->ifa_name, ip});
  }
  std::stable_partition(own.begin(), own.end(), [](const OwnAddress& a) { return !IsV6(a.ip); });
  return own;
}

std::vector<std::string> AddressesOf(const std::string& name) {
  std::vector<std::string> found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return found;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next)
    if (std::string ip = TextOf(at->ai_addr); !ip.empty()) found.push_back(std::move(ip));
  return found;
}

std::string FullNameOf(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_CANONNAME;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  const std::string full = list->ai_canonname == nullptr ? "" : list->ai_canonname;
  return full.find('.') == std::string::npos || full == name ? "" : full;
}

absl::StatusOr<std::string> ChooseAddress(const std::vector<OwnAddress>& own,
                                          const std::string& interface,
                                          const std::vector<std::string>& named) {
  if (!interface.empty()) {
    const auto it = std::find_if(own.begin(), own.end(),
                                 [&](const OwnAddress& a) { return IsOn(a, interface); });
    if (it != own.end()) return it->ip;
    return absl::InvalidArgumentError(absl::StrCat(
        "--interface: '", Cut(Printable(interface)),
        "' is neither an interface of this host nor a network that one is in: there are ",
        ListOf(own)));
  }
  // Debian gives a machine of which it knows no address 127.0.1.1: that leads nobody here.
  for (const std::string& ip : named)
    if (ip == kLoopback || !IsLoopback(ip)) return ip;
  for (const OwnAddress& a : own)
    if (!IsLoopback(a.ip)) return a.ip;
  return kLoopback;
}

absl::StatusOr<std::string> NamedAddress(const std::vector<OwnAddress>& own,
                                         const std::string& option, const std::string& wanted) {
  // All of 127.0.0.0/8 is this machine's, and only one address of it is in the list.
  const std::string bytes = BytesOf(wanted);
  if (!bytes.empty() && IsLoopback(wanted)) return wanted;
  for (const OwnAddress& a : own)
    if ((!bytes.empty() && BytesOf(a.ip) == bytes) || IsOn(a, wanted)) return a.ip;
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": '", Cut(Printable(wanted)),
                   "' is neither an address nor an interface of this host, nor a network that one "
                   "is in: there are ",
                   ListOf(own)));
}

absl::Status CheckListensHere(const std::vector<OwnAddress>& own, const std::string& option,
                              const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return Prefix(option, parsed.status());
  const std::string& host = parsed->host;
  const std::string bytes = BytesOf(host);
  if (bytes.empty() && host != "localhost")
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": '", Cut(Printable(host)),
                     "' is neither a numeric address nor localhost: there are ", ListOf(own)));
  const bool is_any = bytes.find_first_not_of('\0') == std::string::npos;
  return is_any ? absl::OkStatus() : NamedAddress(own, option, host).status();
}

std::string BeforePort(const std::string& ip) { return IsV6(ip) ? absl::StrCat("[", ip, "]") : ip; }

}  // namespace muster
