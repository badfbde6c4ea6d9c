// libpng, whose errors are longjmp, behind a function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/data/decoder/image.h"

namespace muster {

// As DecodeImage; with `size_alone` no pixels.
absl::StatusOr<Image> DecodePng(absl::string_view encoded, bool size_alone);
std::string PngDecoder();  // "libpng 1.6.39"

}  // namespace muster
