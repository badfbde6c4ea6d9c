// Text from others, made fit for a terminal, a log, an event or metadata.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// What one text from others may take where people read it.
inline constexpr size_t kMostShownBytes = 1024;
// … and several lines of it. The last lines of a log are texts of their own: an error with what led
// to it would not fit in the above, and of what was cut the end is lost, which is the error.
inline constexpr size_t kMostLinesBytes = 4 * kMostShownBytes;

// Text that cannot steer a terminal, and that reads as it stands: control characters become
// escapes, and so do those that turn the direction of writing or are not seen at all; bytes that
// are not UTF-8 become '?'. Tabs stay.
std::string Printable(absl::string_view text);
// The same of several lines, each of them.
std::string PrintableLines(absl::string_view text);
// JSON with those escaped that JSON itself lets through, such as U+007F to U+009F: it says the
// same, and cannot steer a terminal. `json` is valid.
std::string PrintableJson(absl::string_view json);

// At most `most` bytes of UTF-8, with "..." at the end of what was longer. `most` is at least 3.
std::string Cut(absl::string_view text, size_t most = kMostShownBytes);

// A path, such as that of a field, which is told by its two ends: at most `most` bytes of UTF-8, of
// what was longer with "..." in its middle, between two names that dots part where these are short
// beside `most`. `most` is at least 3.
inline constexpr size_t kMostPathBytes = 160;
std::string CutMiddle(absl::string_view text, size_t most = kMostPathBytes);

// Printable ASCII, all else escaped, at most kMostShownBytes: as HTTP/2 metadata must be.
std::string AsciiText(absl::string_view text);

}  // namespace muster
