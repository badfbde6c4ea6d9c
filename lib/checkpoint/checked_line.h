// One line of text with a checksum, the whole of a small file: "best-of-all crc32c:0a1b2c3d". Files
// of before have the text alone. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kCheckedLineBytes = 17;  // beside the text, with the line feed

std::string CheckedLine(absl::string_view text);
// The text of a file that is such a line, with a checksum or without one. nullopt: it is none, or
// its checksum is that of another text.
std::optional<std::string> ReadCheckedLine(absl::string_view file);

}  // namespace muster
