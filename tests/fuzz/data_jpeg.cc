// An image in JPEG.
#include "tests/fuzz/image_file.h"

namespace muster::fuzz {
namespace {

std::string Make(Random& random) {
  return Jpeg(RandomPicture(random), static_cast<int>(1 + Below(random, 100)),
              Below(random, 2) == 0);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_IMAGE_FUZZ_TARGET(muster::fuzz::Make, 8);
