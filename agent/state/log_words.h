// What the last lines of a process's log say, as lib/log/log.h writes them: plain or JSON. Pure
// functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster::agent {

// Of the last line its message, so that the same words at another time are the same; a line that is
// none of a log as it is.
std::string LastWords(absl::string_view lines);

// The message of the first error; where there is none, the last words. Empty: nothing was logged.
std::string WhyOf(absl::string_view lines);

}  // namespace muster::agent
