#include "lib/base/address_list.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"

namespace muster {

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
    if (std::find(addresses.begin(), addresses.end(), entries[i]) == addresses.end())
      addresses.emplace_back(entries[i]);
  }
  return addresses;
}

}  // namespace muster
