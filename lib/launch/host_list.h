// The hosts that a person names for `muster run` over ssh: --hosts, --hostfile and --exclude.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct NamedHosts {
  std::vector<std::string> hosts;  // as ssh is told them, in their order, each once
  std::optional<int> slots;        // of each host, where the file says so
  bool operator==(const NamedHosts&) const = default;
};

// A line for each host, or for several as in "a,b[1-3]": its name, and perhaps "slots=N", the same
// on all. "#" begins a comment, and a name that comes again is left out, so that what PBS and
// mpirun take is taken. kInvalidArgument: which line is wrong.
absl::StatusOr<NamedHosts> ParseHostFile(absl::string_view text);

// What is left after `excluded`, each a list as in "a,b[1-3]". kInvalidArgument: one of them is not
// among the hosts, or none is left.
absl::StatusOr<NamedHosts> WithoutHosts(NamedHosts list, const std::vector<std::string>& excluded);

}  // namespace muster
