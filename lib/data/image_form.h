// How large an encoded image may be, and what becomes of one that is decoded. Pure values; any
// thread.
#pragma once

#include <cstdint>

#include "muster/task_options.h"

namespace muster {

// Above that an image is refused before memory is taken for it.
inline constexpr uint64_t kMostPixels = uint64_t{1} << 25;
inline constexpr uint64_t kMostEncodedBytes = uint64_t{64} << 20;
// Of what is made of one: as many as `data.image_size` may ask for, 8192 by 8192.
inline constexpr uint64_t kMostPixelsMade = uint64_t{1} << 26;

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;

  // Whether it has a pixel, and `most` at most.
  bool IsWithin(uint64_t most) const {
    return height > 0 && width > 0 && static_cast<uint64_t>(height) <= most &&
           static_cast<uint64_t>(width) <= most / static_cast<uint64_t>(height);
  }
};

struct ImageForm {
  ImageSize size = {};
  bool may_resize = true;  // else one of another size is refused
  ImageFit fit = ImageFit::kCrop;
  int64_t channels = 3;  // red, green and blue; 1: gray

  uint64_t Bytes() const { return static_cast<uint64_t>(size.height * size.width * channels); }
};

}  // namespace muster
