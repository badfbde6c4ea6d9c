// What the last lines of a process's log say, as lib/log/log.h writes them: plain or JSON. Pure
// functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster::agent {

// The message of the last error; where there is none, of the last line. Without its time, so that
// the same words at another time are the same; a line that is none of a log as it is. What RocksDB
// says of its inner workings, which it may do last, is no cause.
std::string LastError(absl::string_view lines);

// The message of the first error; where there is none, as LastError. Empty: nothing was logged.
std::string WhyOf(absl::string_view lines);

}  // namespace muster::agent
