// `muster delete`: a job that has ended goes, with everything that was kept of it.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"

namespace muster::cli {

// Asks the person at the terminal. It returns nothing, or is empty, when nobody is there to ask.
using Asker = std::function<std::optional<bool>(const std::string& question)>;

// The exit code.
absl::StatusOr<int> Delete(const RemoteArguments& arguments, const RestClient& rest,
                           const Asker& ask, std::ostream& out);

}  // namespace muster::cli
