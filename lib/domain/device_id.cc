#include "lib/domain/device_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace muster {

bool IsDeviceId(absl::string_view id) {
  const auto may_stand = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ||
           c == ':' || c == '/';
  };
  return !id.empty() && id.size() <= kLongestDeviceId && id[0] != '-' &&
         std::all_of(id.begin(), id.end(), may_stand);
}

std::string DeviceIdRule() {
  return absl::StrCat("1 to ", kLongestDeviceId,
                      " letters, digits, hyphens, underscores, dots, colons and slashes, not "
                      "beginning with a hyphen");
}

}  // namespace muster
