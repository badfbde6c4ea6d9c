// A text that people read while it is made.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/task.h"

namespace muster::worker {

// Writes `begin`, and after it what `make` tells and returns, fit for a terminal: as soon as it is
// told, but for a character of which bytes are missing. A line break ends it, also where `make`
// fails, whose error is returned. kCancelled: `out` takes nothing more.
absl::Status WriteGrowingText(
    std::ostream& out, const std::string& begin,
    const std::function<absl::StatusOr<std::string>(const TextListener& told)>& make);

}  // namespace muster::worker
