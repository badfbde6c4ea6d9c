#include "lib/base/address_list.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/loopback.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr size_t kLongestHostName = 253;  // RFC 1035

// A mistyped address is no name: the last label of one has not digits alone (RFC 1123).
bool IsHostName(absl::string_view host) {
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
  if (!plain || host.empty() || host.size() > kLongestHostName || host[0] == '-') return false;
  const absl::string_view last = host.substr(host.rfind('.') + 1);
  return last.empty() || last.find_first_not_of("0123456789") != absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseAddressList(absl::string_view list) {
  const std::vector<absl::string_view> entries = absl::StrSplit(list, ',');
  if (entries.size() > kMostAddresses) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", entries.size(), " addresses; at most ", kMostAddresses, " may be given"));
  }
  std::vector<std::string> addresses;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].empty() && entries.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", i + 1, " of \"", list,
                       "\" is empty; write host:port,host:port without a comma too many"));
    }
    MUSTER_RETURN_IF_ERROR(ParseHostPort(entries[i]).status());
    if (const auto name = NameIn(entries[i]); name && !IsHostName(*name))
      return absl::InvalidArgumentError(
          absl::StrCat("address \"", entries[i],
                       "\" has neither a numeric host nor the name of one; write host:port, for "
                       "example 10.0.0.7:7070, [fd00::7]:7070 or coordinator.example:7070"));
    if (std::find(addresses.begin(), addresses.end(), entries[i]) == addresses.end())
      addresses.emplace_back(entries[i]);
  }
  return addresses;
}

std::optional<std::string> NameIn(absl::string_view address) {
  const absl::StatusOr<HostPort> at = ParseHostPort(address);
  if (!at.ok() || ToSocketAddress(*at).ok()) return std::nullopt;
  return at->host;
}

std::string AddressRound::Choose(const std::vector<std::string>& found) {
  const std::string port = current().substr(current().rfind(':'));
  const std::string answered = std::exchange(answered_, "");
  if (!answered.empty() && std::binary_search(found.begin(), found.end(), answered)) {
    tried_ = answered;
    has_more_ = false;
    return answered + port;
  }
  // Where the answer has changed so that none is behind the last one, the entry has had its turn.
  const auto next = std::upper_bound(found.begin(), found.end(), tried_);
  const bool is_behind = next != found.end();
  tried_ = is_behind ? *next : found.front();
  has_more_ = is_behind && next + 1 != found.end();
  return tried_ + port;
}

std::string AddressRound::FromWhatAnswered() const {
  std::vector<std::string> list = addresses_;
  std::rotate(list.begin(), list.begin() + static_cast<ptrdiff_t>(last_.value_or(0)), list.end());
  return absl::StrJoin(list, ",");
}

}  // namespace muster
