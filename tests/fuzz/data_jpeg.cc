// An image in JPEG.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {
    "f.jpg",
    {.format = DataFormat::kImages, .image_size = {4, 5}, .channels = 1},
    // As many as an image may have, and a progressive one holds all of its coefficients.
    size_t{512} << 20};

std::string Make(Random& random) {
  return Jpeg(RandomPicture(random), static_cast<int>(1 + Below(random, 100)),
              Below(random, 2) == 0);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 8);
