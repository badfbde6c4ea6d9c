// Whether two processes understand each other (docs/protocol.md section 10).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "lib/base/version.h"

namespace muster {

// Why the two cannot work together, for people; empty: they have a form in common. `one_is` and
// `other_is`: "worker-1", "the coordinator".
std::string WhyNotUnderstood(const std::string& one_is, const Speaks& one,
                             const std::string& other_is, const Speaks& other);
// Whether that is said there: the end of a session comes as words.
bool SaysNotUnderstood(absl::string_view text);

}  // namespace muster
