// The name of a member: a process of a job. It is also a part of the names of files and a word of
// command lines, so it can neither lead out of a folder nor look like an option.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// What comes behind it in the name of a file, which has at most 255 bytes, fits there, too:
// NAME.lanes, NAME.log.1.
inline constexpr size_t kLongestMemberName = 240;

bool IsMemberName(absl::string_view name);
// The rule of IsMemberName for people, as in "must be …".
std::string MemberNameRule();

}  // namespace muster
