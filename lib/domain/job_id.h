// The id of a job. It is also the name of the job's folders and a word of command lines, so it can
// neither lead out of a folder nor look like an option.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kLongestJobId = 100;

bool IsJobId(absl::string_view id);
// The rule of IsJobId for people, as in "must be …".
std::string JobIdRule();

bool IsJobIdCharacter(char c);
// An id may not begin with this character, although it may have it further on.
bool IsBadStartOfJobId(char c);

}  // namespace muster
