// libjpeg-turbo, whose errors are longjmp, behind a function.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/data/decoder/image.h"

namespace muster {

// As DecodeImage; with `size_alone` no pixels.
absl::StatusOr<Image> DecodeJpeg(absl::string_view encoded, bool size_alone);
// Of one of such a size, its pixels as FormImage writes those of three channels. False: it has
// another size. Errors as DecodeImage; what `planes` hold then says nothing.
absl::StatusOr<bool> DecodeJpegPlanes(absl::string_view encoded, ImageSize size,
                                      absl::Span<uint8_t> planes);
std::string JpegDecoder();  // "libjpeg-turbo 2.1.5"

}  // namespace muster
