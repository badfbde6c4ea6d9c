// libjpeg-turbo, whose errors are longjmp, behind a function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/data/decoder/image.h"

namespace muster {

// As DecodeImage; with `size_alone` no pixels.
absl::StatusOr<Image> DecodeJpeg(absl::string_view encoded, bool size_alone);
std::string JpegDecoder();  // "libjpeg-turbo 2.1.5"

}  // namespace muster
