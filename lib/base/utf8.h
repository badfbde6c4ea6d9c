// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace muster {

// The length of the well-formed character at the front of `text` (not empty); 0 if there is none.
size_t Utf8Length(absl::string_view text);

// How much of `text` stands before a character at its end of which bytes are still missing: all of
// it, or up to three bytes less.
size_t WholeUtf8(absl::string_view text);

bool IsUtf8(absl::string_view text);

}  // namespace muster
