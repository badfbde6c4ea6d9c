#include "lib/kernels/planes.h"

#include <numeric>

#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

// What lies between the planes stays as it was.
TEST(ThreePlanes, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (const size_t count : kUglySizes) {
      std::vector<uint8_t> pixels(3 * count);
      std::iota(pixels.begin(), pixels.end(), uint8_t{7});
      const size_t plane = count + 5;
      std::vector<uint8_t> planes(3 * plane, 99), expected = planes;
      for (size_t i = 0; i < count; ++i)
        for (size_t c = 0; c < 3; ++c) expected[c * plane + i] = pixels[3 * i + c];
      ThreePlanes(pixels, absl::MakeSpan(planes), plane);
      EXPECT_EQ(planes, expected) << count;
    }
  });
}

}  // namespace
}  // namespace muster
