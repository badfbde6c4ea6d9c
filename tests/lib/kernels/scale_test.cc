#include "lib/kernels/scale.h"

#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

TEST(Scale, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      for (float factor : {0.3f, -1e-7f, 0.0f, 3e8f}) {
        const auto values = WildFloats(n, n);
        std::vector<float> scaled = values, expected = values;
        Scale(absl::MakeSpan(scaled), factor);
        for (float& v : expected) v = v * factor;
        EXPECT_EQ(Bits(scaled), Bits(expected)) << n << " " << factor;
      }
    }
  });
}

TEST(DivideBy, IsATrueDivisionOnEveryTarget) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      for (float divisor : {3.0f, 48.0f, -7e-5f, 1e9f}) {
        const auto values = WildFloats(n, n);
        std::vector<float> divided = values, expected = values;
        DivideBy(absl::MakeSpan(divided), divisor);
        for (float& v : expected) v = v / divisor;
        EXPECT_EQ(Bits(divided), Bits(expected)) << n << " " << divisor;
      }
    }
  });
}

}  // namespace
}  // namespace muster
