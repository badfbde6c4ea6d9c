// JPEG and PNG into bytes. The same bytes everywhere where the versions of libjpeg-turbo and libpng
// are equal: whole-number inverse DCT, and a resize in fixed point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/task_options.h"

namespace muster {

// Above that an image is refused before memory is taken for it.
inline constexpr uint64_t kMostPixels = uint64_t{1} << 25;
inline constexpr uint64_t kMostEncodedBytes = uint64_t{64} << 20;

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

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

// "libjpeg-turbo 2.1.5, libpng 1.6.39": the same bytes are promised for the same ones only.
std::string ImageDecoders();

}  // namespace muster
