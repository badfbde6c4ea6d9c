// JPEG and PNG into bytes, for muster-decoder alone. The same bytes everywhere where the versions
// of libjpeg-turbo and libpng are equal: whole-number inverse DCT, and a resize in fixed point.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/data/image_form.h"

namespace muster {

// kDataLoss: an image of so many pixels is refused; `what`: "JPEG".
absl::Status CheckPixels(absl::string_view what, ImageSize size);

// Row after row, the channels of a pixel side by side.
struct Image {
  ImageSize size;
  int64_t channels = 3;
  std::vector<uint8_t> pixels;
};

// Red, green and blue, whatever the file has; what is transparent counts as if it were not.
// kDataLoss: it is neither JPEG nor PNG, broken, cut off, or too large; the message says so.
// kResourceExhausted: memory is short, which is no fault of the image's.
absl::StatusOr<Image> DecodeImage(absl::string_view encoded);
// Its size alone, as its header tells.
absl::StatusOr<ImageSize> SizeOfImage(absl::string_view encoded);

// ITU-R 601-2: 0.299 red + 0.587 green + 0.114 blue, in sixteenths of a bit.
Image Gray(const Image& image);

// The part in the middle that has the shape of `size` (kCrop), or all of it (kStretch), at that
// size: a weighted mean of the pixels under a triangle, which is as wide as a new pixel, but two
// old ones at least; each axis by itself, rounded to bytes in between, as PIL's BILINEAR does, the
// width first but where that would make more than kMostPixels.
Image Resized(const Image& image, ImageSize size, ImageFit fit);

// Writes what `form` makes of an encoded image to `planes`, form.Bytes() of them: channel after
// channel, of each one row after row. kFailedPrecondition: it has another size and may not be
// resized. Other errors as DecodeImage; what `planes` hold then says nothing.
absl::Status FormImage(absl::string_view encoded, const ImageForm& form,
                       absl::Span<uint8_t> planes);

// "libjpeg-turbo 2.1.5, libpng 1.6.39": the same bytes are promised for the same ones only.
std::string ImageDecoders();

}  // namespace muster
