// The id of a device of a host, such as a GPU. It becomes a part of an environment variable, where
// commas lie between ids, and it is shown to people.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kLongestDeviceId = 64;

bool IsDeviceId(absl::string_view id);
// The rule of IsDeviceId for people, as in "must be …".
std::string DeviceIdRule();

}  // namespace muster
