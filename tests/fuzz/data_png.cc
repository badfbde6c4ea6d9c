// An image in PNG.
#include "tests/fuzz/image_file.h"

namespace muster::fuzz {
namespace {

std::string Make(Random& random) { return Png(RandomPicture(random)); }

}  // namespace
}  // namespace muster::fuzz

MUSTER_IMAGE_FUZZ_TARGET(muster::fuzz::Make, 8);
