// Which devices a host has, as `--devices` says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::agent {

// `said`: auto, none, how many (their ids are 0, 1, …), or ids with commas; one with a comma after
// it is an id, too. auto: those that `visible`, the CUDA_VISIBLE_DEVICES that was given to us,
// names; where it was not given, as many as `folder` (/dev) has nvidia0, nvidia1 and so on.
// kInvalidArgument: none of these.
absl::StatusOr<std::vector<std::string>> DevicesOfHost(const std::string& said,
                                                       const std::optional<std::string>& visible,
                                                       const std::string& folder = "/dev");

}  // namespace muster::agent
