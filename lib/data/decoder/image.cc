#include "lib/data/decoder/image.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/status.h"
#include "lib/data/decoder/jpeg.h"
#include "lib/data/decoder/png.h"
#include "lib/kernels/planes.h"

namespace muster {
namespace {

constexpr int kFractionBits = 22;  // of weights: 32 less 8 of a byte and 2 for their sum's sign

// Of one new pixel along one axis: the old ones that it is made of.
struct Weights {
  int64_t first = 0;
  std::vector<int32_t> of;  // in 2^-22
};

std::vector<Weights> TriangleWeights(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double half_width = std::max(scale, 1.0);
  std::vector<Weights> all(static_cast<size_t>(to));
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - half_width + 0.5));
    const auto end = std::min<int64_t>(from, static_cast<int64_t>(center + half_width + 0.5));
    weights.clear();
    double sum = 0;
    for (int64_t old = first; old < end; ++old) {
      const double distance = (static_cast<double>(old) - center + 0.5) / half_width;
      weights.push_back(std::max(0.0, 1 - std::abs(distance)));
      sum += weights.back();
    }
    Weights& made = all[static_cast<size_t>(i)];
    made.first = first;
    for (const double weight : weights)
      made.of.push_back(static_cast<int32_t>(0.5 + weight / sum * (1 << kFractionBits)));
  }
  return all;
}

// Of pixels that lie `stride` bytes apart from `from`.
uint8_t WeightedSum(const Weights& weights, const uint8_t* from, int64_t stride) {
  int64_t sum = int64_t{1} << (kFractionBits - 1);
  for (const int32_t weight : weights.of) {
    sum += int64_t{weight} * *from;
    from += stride;
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kFractionBits, 0, 255));
}

Image WithWidth(const Image& image, int64_t width) {
  const std::vector<Weights> weights = TriangleWeights(image.size.width, width);
  Image made{{image.size.height, width}, image.channels, {}};
  made.pixels.reserve(static_cast<size_t>(image.size.height * width * image.channels));
  for (int64_t y = 0; y < image.size.height; ++y) {
    const uint8_t* row = image.pixels.data() + y * image.size.width * image.channels;
    for (const Weights& of : weights)
      for (int64_t c = 0; c < image.channels; ++c)
        made.pixels.push_back(WeightedSum(of, row + of.first * image.channels + c, image.channels));
  }
  return made;
}

Image WithHeight(const Image& image, int64_t height) {
  const std::vector<Weights> weights = TriangleWeights(image.size.height, height);
  const int64_t row_bytes = image.size.width * image.channels;
  Image made{{height, image.size.width}, image.channels, {}};
  made.pixels.reserve(static_cast<size_t>(height * row_bytes));
  for (const Weights& of : weights)
    for (int64_t x = 0; x < row_bytes; ++x)
      made.pixels.push_back(
          WeightedSum(of, image.pixels.data() + of.first * row_bytes + x, row_bytes));
  return made;
}

// The largest part in the middle that is as wide for its height as `shape`.
Image Middle(const Image& image, ImageSize shape) {
  const auto [height, width] = image.size;
  ImageSize part = image.size;
  if (width * shape.height > height * shape.width)
    part.width = std::max<int64_t>(1, height * shape.width / shape.height);
  else
    part.height = std::max<int64_t>(1, width * shape.height / shape.width);
  if (part == image.size) return image;
  const int64_t top = (height - part.height) / 2, left = (width - part.width) / 2;
  Image made{part, image.channels, {}};
  made.pixels.reserve(static_cast<size_t>(part.height * part.width * image.channels));
  for (int64_t y = 0; y < part.height; ++y) {
    const auto row = image.pixels.begin() + ((top + y) * width + left) * image.channels;
    made.pixels.insert(made.pixels.end(), row, row + part.width * image.channels);
  }
  return made;
}

bool IsJpeg(absl::string_view encoded) { return encoded.substr(0, 3) == "\xff\xd8\xff"; }
bool IsPng(absl::string_view encoded) { return encoded.substr(0, 8) == "\x89PNG\r\n\x1a\n"; }

absl::StatusOr<Image> Decode(absl::string_view encoded, bool size_alone) {
  if (IsJpeg(encoded)) return DecodeJpeg(encoded, size_alone);
  if (IsPng(encoded)) return DecodePng(encoded, size_alone);
  return absl::DataLossError(
      "it is neither JPEG nor PNG; where a folder holds other files too, name endings in "
      "data.suffixes");
}

}  // namespace

absl::Status CheckPixels(absl::string_view what, ImageSize size) {
  if (size.IsWithin(kMostPixels)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a ", what, " of ", size.width, " by ", size.height,
                                          " pixels; at most ", kMostPixels, " in all are allowed"));
}

absl::StatusOr<Image> DecodeImage(absl::string_view encoded) { return Decode(encoded, false); }

absl::StatusOr<ImageSize> SizeOfImage(absl::string_view encoded) {
  MUSTER_ASSIGN_OR_RETURN(const Image image, Decode(encoded, true));
  return image.size;
}

Image Gray(const Image& image) {
  Image gray{image.size, 1, {}};
  gray.pixels.reserve(image.pixels.size() / 3);
  for (size_t at = 0; at + 3 <= image.pixels.size(); at += 3)
    gray.pixels.push_back(
        static_cast<uint8_t>((image.pixels[at] * 19595u + image.pixels[at + 1] * 38470u +
                              image.pixels[at + 2] * 7471u + 0x8000u) >>
                             16));
  return gray;
}

Image Resized(const Image& image, ImageSize size, ImageFit fit) {
  if (image.size == size) return image;
  Image made = fit == ImageFit::kCrop ? Middle(image, size) : image;
  // One of a few columns and a million rows is made short first: wide and high at once it may be
  // larger than any image that is read.
  const auto most = std::max(static_cast<int64_t>(kMostPixels), size.height * size.width);
  if (made.size.height * size.width > most) made = WithHeight(made, size.height);
  if (made.size.width != size.width) made = WithWidth(made, size.width);
  if (made.size.height != size.height) made = WithHeight(made, size.height);
  return made;
}

absl::Status FormImage(absl::string_view encoded, const ImageForm& form,
                       absl::Span<uint8_t> planes) {
  if (IsJpeg(encoded) && form.channels == 3) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_done, DecodeJpegPlanes(encoded, form.size, planes));
    if (is_done) return absl::OkStatus();
  }
  MUSTER_ASSIGN_OR_RETURN(Image image, DecodeImage(encoded));
  if (form.channels == 1) image = Gray(image);
  const ImageSize size = form.size;
  if (image.size != size && !form.may_resize)
    return absl::FailedPreconditionError(absl::StrCat(
        "it has ", image.size.width, " by ", image.size.height, " pixels, and the first one ",
        size.width, " by ", size.height, "; give data.image_size"));
  if (image.size != size) image = Resized(image, size, form.fit);
  if (image.channels == 3)
    ThreePlanes(image.pixels, planes, planes.size() / 3);
  else
    std::copy(image.pixels.begin(), image.pixels.end(), planes.begin());
  return absl::OkStatus();
}

std::string ImageDecoders() { return absl::StrCat(JpegDecoder(), ", ", PngDecoder()); }

}  // namespace muster
