// What the last lines of a process's log say, as lib/log/log.h writes them: plain or JSON. Pure
// functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster::agent {

// The message of the last error; where there is none, of the last warning, or the last line that is
// none of a log, as it is ("terminate called …"). Without its time, so that the same words at
// another time are the same. Neither what went well is a cause nor what RocksDB says of its inner
// workings, though both may stand last.
std::string LastError(absl::string_view lines);

// The message of the first error; where there is none, as LastError. Empty: no line says a cause.
std::string WhyOf(absl::string_view lines);

}  // namespace muster::agent
